#include "wire/parts.h"

#include <string.h>

#include "wire/image.h"

/* The walk over one body; every function reads exactly one value. */
struct parts {
    struct weir_json *json;
    struct weir_request_facts *facts;
};

/* What one content part turned out to be: known at its end only, since `type` may stand last. */
struct part {
    bool image; /* its type or its members say so */
    bool file;
    bool audio;
    bool blob_has;     /* inline data was given */
    bool blob_is_text; /* a source of type "text": its data is plain text */
    bool url;          /* given by address or id */
    struct weir_json_string blob;
};

static bool read_content(struct parts *r);

/* A text member: strings are counted, anything else is skipped. */
static bool read_text(struct parts *r)
{
    struct weir_json_string s;
    if (weir_json_kind(r->json) == WEIR_JSON_STRING)
        return weir_json_take_text(r->json, &r->facts->classes, &s);
    return weir_json_skip(r->json);
}

/* Inline data or an address: a data URL is data, whatever else is an address. */
static bool read_blob(struct parts *r, struct part *part)
{
    struct weir_json_string s;
    if (weir_json_kind(r->json) != WEIR_JSON_STRING)
        return weir_json_skip(r->json);
    if (!weir_json_take_string(r->json, &s))
        return false;
    static const char mark[] = ";base64,";
    bool data_url = s.bytes > 5 && memcmp(s.at, "data:", 5) == 0;
    const uint8_t *found =
        data_url ? memmem(s.at, (size_t)weir_min_u64(s.bytes, 256), mark, sizeof mark - 1) : NULL;
    if (found) {
        found += sizeof mark - 1;
        s.bytes -= (size_t)(found - s.at);
        s.at = found;
    } else if (s.bytes > 8 && memmem(s.at, (size_t)weir_min_u64(s.bytes, 16), "://", 3)) {
        part->url = true;
        return true;
    }
    part->blob = s;
    part->blob_has = true;
    return true;
}

/* An object whose one member of interest is inline data or an address: image_url, input_audio,
 * file. */
static bool read_blob_object(struct parts *r, struct part *part)
{
    struct weir_json_string key;
    bool first = true;
    if (weir_json_kind(r->json) != WEIR_JSON_OBJECT)
        return read_blob(r, part);
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_member(r->json, &first, &key)) {
        bool blob = WEIR_JSON_IS(&key, "url") || WEIR_JSON_IS(&key, "data") ||
                    WEIR_JSON_IS(&key, "file_data") || WEIR_JSON_IS(&key, "file_url");
        if (!(blob ? read_blob(r, part) : weir_json_skip(r->json)))
            return false;
    }
    return !r->json->fault;
}

/* Anthropic's source: {type: base64 | url | text | content | file, media_type, data | url | ...}.
 */
static bool read_source(struct parts *r, struct part *part)
{
    struct weir_json_string key, s;
    bool first = true;
    if (weir_json_kind(r->json) != WEIR_JSON_OBJECT)
        return weir_json_skip(r->json);
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_member(r->json, &first, &key)) {
        bool string = weir_json_kind(r->json) == WEIR_JSON_STRING;
        if (WEIR_JSON_IS(&key, "type") && string) {
            if (!weir_json_take_string(r->json, &s))
                return false;
            part->blob_is_text = WEIR_JSON_IS(&s, "text");
        } else if (WEIR_JSON_IS(&key, "media_type") && string) {
            if (!weir_json_take_string(r->json, &s))
                return false;
            if (s.bytes > 6 && memcmp(s.at, "image/", 6) == 0)
                part->image = true;
        } else if (WEIR_JSON_IS(&key, "data") && string) {
            if (!weir_json_take_string(r->json, &part->blob))
                return false;
            part->blob_has = true;
        } else if (WEIR_JSON_IS(&key, "content")) {
            if (!read_content(r))
                return false;
        } else if (!weir_json_skip(r->json)) {
            return false;
        }
    }
    return !r->json->fault;
}

static bool read_part_type(struct parts *r, struct part *part)
{
    struct weir_json_string s;
    if (weir_json_kind(r->json) != WEIR_JSON_STRING)
        return weir_json_skip(r->json);
    if (!weir_json_take_string(r->json, &s))
        return false;
    if (WEIR_JSON_IS(&s, "image") || WEIR_JSON_IS(&s, "image_url") ||
        WEIR_JSON_IS(&s, "input_image") || WEIR_JSON_IS(&s, "computer_screenshot"))
        part->image = true;
    else if (WEIR_JSON_IS(&s, "document") || WEIR_JSON_IS(&s, "file") ||
             WEIR_JSON_IS(&s, "input_file"))
        part->file = true;
    else if (WEIR_JSON_IS(&s, "input_audio"))
        part->audio = true;
    return true;
}

static void count_part(struct parts *r, const struct part *part)
{
    struct weir_text_classes *c = &r->facts->classes;
    if (part->blob_has && part->blob_is_text) {
        weir_json_count_text(&part->blob, c);
        return;
    }
    if (!part->image && !part->file && !part->audio && !part->blob_has && !part->url)
        return;
    if (part->audio || (part->file && !part->image)) {
        *(part->audio ? &c->audios : &c->files) += 1;
        if (part->blob_has)
            c->blob_bytes += weir_base64_bytes(part->blob.at, part->blob.bytes);
        return;
    }
    struct weir_image_size size;
    c->images++;
    if (!part->blob_has || part->blob.escaped ||
        !weir_image_size(part->blob.at, part->blob.bytes, &size.width_px, &size.height_px))
        return;
    c->images_sized++;
    c->image_px += (uint64_t)size.width_px * size.height_px;
    if (r->facts->image_sizes_now < WEIR_REQUEST_IMAGES_MAX)
        r->facts->image_sizes[r->facts->image_sizes_now++] = size;
}

/* Members that shape an item but are not text for the model. */
static bool key_is_frame(const struct weir_json_string *key)
{
    return WEIR_JSON_IS(key, "role") || WEIR_JSON_IS(key, "id") || WEIR_JSON_IS(key, "status") ||
           WEIR_JSON_IS(key, "tool_call_id") || WEIR_JSON_IS(key, "tool_use_id") ||
           WEIR_JSON_IS(key, "call_id") || WEIR_JSON_IS(key, "file_id") ||
           WEIR_JSON_IS(key, "cache_control") || WEIR_JSON_IS(key, "detail");
}

/* One member of a message, an input item or a content part. */
static bool read_part_member(struct parts *r, const struct weir_json_string *key, struct part *part)
{
    switch (key->bytes) {
    case 4:
        if (WEIR_JSON_IS(key, "text"))
            return read_text(r);
        if (WEIR_JSON_IS(key, "type"))
            return read_part_type(r, part);
        if (WEIR_JSON_IS(key, "file")) {
            part->file = true;
            return read_blob_object(r, part);
        }
        break;
    case 6:
        if (WEIR_JSON_IS(key, "source"))
            return read_source(r, part);
        if (WEIR_JSON_IS(key, "output"))
            return read_content(r);
        if (WEIR_JSON_IS(key, "result")) { /* a generated image given back */
            part->image = true;
            return read_blob(r, part);
        }
        break;
    case 7:
        if (WEIR_JSON_IS(key, "content"))
            return read_content(r);
        break;
    case 8:
    case 9:
        if (WEIR_JSON_IS(key, "file_url") || WEIR_JSON_IS(key, "file_data")) {
            part->file = true;
            return read_blob(r, part);
        }
        if (WEIR_JSON_IS(key, "image_url")) {
            part->image = true;
            return read_blob_object(r, part);
        }
        break;
    case 11:
        if (WEIR_JSON_IS(key, "input_audio")) {
            part->audio = true;
            return read_blob_object(r, part);
        }
        break;
    default:
        break;
    }
    if (key_is_frame(key))
        return weir_json_skip(r->json);
    return weir_json_take_raw(r->json, &r->facts->classes);
}

/* A message, an input item or a content part: an object of members in any order. */
static bool read_part(struct parts *r)
{
    struct part part = {0};
    struct weir_json_string key;
    bool first = true;
    if (weir_json_kind(r->json) != WEIR_JSON_OBJECT)
        return read_text(r);
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_member(r->json, &first, &key))
        if (!read_part_member(r, &key, &part))
            return false;
    if (r->json->fault)
        return false;
    count_part(r, &part);
    return true;
}

/* The content of a message: a string, one part, or an array of strings and parts. */
static bool read_content(struct parts *r)
{
    bool first = true;
    if (weir_json_kind(r->json) != WEIR_JSON_ARRAY)
        return read_part(r);
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_element(r->json, &first))
        if (!read_part(r))
            return false;
    return !r->json->fault;
}

/* messages, or the input of /v1/responses: a string or an array of items. */
static bool read_messages(struct parts *r)
{
    bool first = true;
    if (weir_json_kind(r->json) != WEIR_JSON_ARRAY) {
        r->facts->classes.messages++;
        return read_text(r);
    }
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_element(r->json, &first)) {
        r->facts->classes.messages++;
        if (!read_part(r))
            return false;
    }
    return !r->json->fault;
}

/* prompt, or the input of /v1/embeddings: a string, strings, token ids, or arrays of token ids. */
static bool read_prompts(struct parts *r, bool outermost)
{
    struct weir_json_string s;
    bool first = true, ids = false;
    uint32_t items = 0;
    switch (weir_json_kind(r->json)) {
    case WEIR_JSON_ARRAY:
        break;
    case WEIR_JSON_NUM:
        r->facts->classes.token_ids++;
        return weir_json_take_number(r->json, &s);
    case WEIR_JSON_OBJECT:
        return weir_json_take_raw(r->json, &r->facts->classes);
    case WEIR_JSON_STRING:
    case WEIR_JSON_TRUE:
    case WEIR_JSON_FALSE:
    case WEIR_JSON_NULL:
    case WEIR_JSON_NONE:
        return read_text(r);
    }
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_element(r->json, &first)) {
        ids |= weir_json_kind(r->json) == WEIR_JSON_NUM;
        items++;
        if (!read_prompts(r, false))
            return false;
    }
    if (outermost && !ids && items > 1)
        r->facts->prompts = items;
    return !r->json->fault;
}

static bool read_tools(struct parts *r)
{
    bool first = true;
    if (weir_json_kind(r->json) != WEIR_JSON_ARRAY)
        return weir_json_take_raw(r->json, &r->facts->classes);
    if (!weir_json_open(r->json))
        return false;
    while (weir_json_element(r->json, &first)) {
        r->facts->classes.tools++;
        if (!weir_json_take_raw(r->json, &r->facts->classes))
            return false;
    }
    return !r->json->fault;
}

bool weir_parts_text(struct weir_json *json, struct weir_request_facts *facts)
{
    return read_text(&(struct parts){json, facts});
}

bool weir_parts_content(struct weir_json *json, struct weir_request_facts *facts)
{
    return read_content(&(struct parts){json, facts});
}

bool weir_parts_messages(struct weir_json *json, struct weir_request_facts *facts)
{
    return read_messages(&(struct parts){json, facts});
}

bool weir_parts_tools(struct weir_json *json, struct weir_request_facts *facts)
{
    return read_tools(&(struct parts){json, facts});
}

bool weir_parts_prompts(struct weir_json *json, struct weir_request_facts *facts)
{
    return read_prompts(&(struct parts){json, facts}, true);
}
