/* text_json: see text_json.h. */
#include "text_json.h"

json_t *text_json(const char *text)
{
    json_t *string = json_string(text);
    char latin[2 * 4096 + 1], *out = latin;

    if (string != NULL)
        return string;
    for (; *text != '\0' && out < latin + sizeof(latin) - 2; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x80) {
            *out++ = (char)c;
        } else {
            *out++ = (char)(0xc0 | c >> 6);
            *out++ = (char)(0x80 | (c & 0x3f));
        }
    }
    *out = '\0';
    return json_string(latin);
}
