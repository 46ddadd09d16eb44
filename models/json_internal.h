/* json_internal.h - JSON as this project writes it: texts from outside, and numbers with no more digits than they hold. */
#ifndef SG_JSON_INTERNAL_H
#define SG_JSON_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A path or an argument may hold any bytes, JSON only Unicode: what is not UTF-8 becomes U+FFFD. NULL gives null. */
json_t *sg_json_text(const char *text);
/* null if it is not finite; of a float the decimal that gives it back, 0.3 and not 0.300000012. */
json_t *sg_json_number(double value);
json_t *sg_json_float(float value);

/* The shortest of 15, 16 and 17 digits that reads back as the same double; returns `out`. */
const char *sg_json_digits(double value, char out[32]);
/* Write a value, on one line or on several with two spaces a level; numbers by sg_json_digits, objects in their order. False if it is
 * NULL or cannot be written. */
bool sg_json_write(const json_t *value, bool lines, FILE *out);
/* The same as a text to be released with sg_free; NULL if out of memory. */
char *sg_json_dump(const json_t *value, bool lines);

#endif
