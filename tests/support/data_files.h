/* data_files.h - small data files for tests, and where the shared data sets are. */
#ifndef SG_TESTS_DATA_FILES_H
#define SG_TESTS_DATA_FILES_H

#include "models/models.h"

/* Write `size` bytes as NAME into the folder of this test process below the build folder; the path stays valid until
 * the next call with the same slot (0..3). Fails the test if that is impossible. data_files_remove deletes
 * everything. */
const char *data_file(int slot, const char *name, const void *bytes, size_t size);
const char *data_text(int slot, const char *name, const char *text);
const char *data_gzip(int slot, const char *name, const char *text, size_t cut); /* cut > 0: that many bytes missing */
void data_files_remove(void);

/* Path of a file below the shared folder (environment SG_SHARED, else beside the sources), or NULL if it is not
 * there. */
const char *shared_file(int slot, const char *relative);

/* Read one file; NULL on failure, with the message in data_message ("file:line:column: text", file name alone). */
sg_dataset *data_read(const char *path, const sg_read_options *options);
extern char data_message[1024];
extern sg_error data_error;
/* Does a note of the data set contain the text? */
bool data_noted(const sg_dataset *data, const char *text);

#endif
