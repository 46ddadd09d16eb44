/* json_internal.h - texts from outside as JSON. */
#ifndef SG_JSON_INTERNAL_H
#define SG_JSON_INTERNAL_H

#include <jansson.h>

/* A path or an argument may hold any bytes, JSON only Unicode: what is not UTF-8 becomes U+FFFD. NULL gives null. */
json_t *sg_json_text(const char *text);

#endif
