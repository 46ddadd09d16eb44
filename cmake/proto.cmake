# C code of the protobuf schema, generated into the build folder.
file(GLOB proto_files CONFIGURE_DEPENDS serialize/*.proto)
foreach(proto ${proto_files})
  get_filename_component(stem ${proto} NAME_WE)
  set(generated ${CMAKE_BINARY_DIR}/generated/${stem}.pb-c)
  add_custom_command(OUTPUT ${generated}.c ${generated}.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
    COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/serialize --c_out=${CMAKE_BINARY_DIR}/generated ${proto}
    DEPENDS ${proto})
  target_sources(sg_serialize PRIVATE ${generated}.c ${generated}.h)
  set_source_files_properties(${generated}.c PROPERTIES COMPILE_OPTIONS "-w")
  target_include_directories(sg_serialize PRIVATE ${CMAKE_BINARY_DIR}/generated)
endforeach()
