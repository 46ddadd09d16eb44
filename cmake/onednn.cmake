# oneDNN 3: the system's where it is new enough, else the prefix that `make setup` unpacked under build/.
list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/build/deps/onednn)
find_package(dnnl 3 CONFIG QUIET)
if(NOT dnnl_FOUND)
  message(FATAL_ERROR "oneDNN 3 is missing: run `make setup`, which fetches it into build/deps.")
endif()
