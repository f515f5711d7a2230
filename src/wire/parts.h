/* parts: the input of a request (messages, content parts, prompts, tools), counted by class.
 *
 * Text is counted where a model reads it. Inline images, audio and files are counted as parts, with
 * the size of an image from its header bytes; their base64 is never text. It counts as such only in
 * the places where the APIs take it (image_url, source, input_audio, file, ...), so text cannot
 * hide as an image. Members we do not know count as the JSON text they are: the upper side.
 *
 * Each function reads the one value that comes next; false on a fault in json.
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_PARTS_H
#define WEIR_WIRE_PARTS_H

#include "wire/json.h"
#include "wire/request.h"

/* A plain text member; anything but a string is skipped. */
WEIR_MUST_USE bool weir_parts_text(struct weir_json *json, struct weir_request_facts *facts);

/* The content of a message, or a system prompt: a string, a part, or an array of both. */
WEIR_MUST_USE bool weir_parts_content(struct weir_json *json, struct weir_request_facts *facts);

/* `messages`, or `input` of /v1/responses; counts messages. */
WEIR_MUST_USE bool weir_parts_messages(struct weir_json *json, struct weir_request_facts *facts);

/* `prompt`, or `input` of /v1/embeddings: text or token ids; sets facts->prompts. */
WEIR_MUST_USE bool weir_parts_prompts(struct weir_json *json, struct weir_request_facts *facts);

/* `tools` or `functions`: counted, and their JSON as text. */
WEIR_MUST_USE bool weir_parts_tools(struct weir_json *json, struct weir_request_facts *facts);

#endif
