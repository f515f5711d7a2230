/* shape: what a request's input is made of, as counts, without the text itself.
 *
 * The wire side fills it in one pass over the body; the estimator turns it into tokens. Nothing of
 * the content can be recovered from it, so it may be kept while the request waits.
 *
 * ASCII classes count bytes, the classes of longer UTF-8 forms count characters (code points), so
 *   text_bytes = letters + digits + punct + space + mixed
 *              + 2 (cyrillic + greek + other2) + 3 (cjk + other3) + 4 wide4.
 * All counts are of decoded text: an escape \u00e9 in JSON is one other2. Base64 of images, audio
 * and files is never text. Units: counts unless the name says bytes or px. Thread: any. */
#ifndef WEIR_CORE_SHAPE_H
#define WEIR_CORE_SHAPE_H

#include <stdint.h>

struct weir_text_classes {
    uint32_t letters; /* A-Z a-z outside mixed blocks */
    uint32_t words;   /* runs of letters: a start of a run counts one */
    uint32_t digits;  /* 0-9 outside mixed blocks */
    uint32_t punct;   /* every other ASCII byte that is not space */
    uint32_t space;   /* space, tab, LF, CR */
    uint32_t mixed;   /* bytes of 16-byte blocks made of [A-Za-z0-9+/=_-] with a letter and a digit:
                         base64, hex, UUIDs; a tokenizer gets about 1.4 bytes a token out of these */

    uint32_t cyrillic; /* U+0400..052F */
    uint32_t greek;    /* U+0370..03FF */
    uint32_t other2;   /* every other character of two bytes */
    uint32_t cjk;      /* U+3000..9FFF and U+A000..D7FF: kana, Han, Hangul */
    uint32_t other3;   /* every other character of three bytes */
    uint32_t wide4;    /* characters of four bytes: emoji, rare Han */

    uint32_t token_ids; /* numbers where the API takes ready token ids: one token each */
    uint32_t messages;  /* messages or input items: each costs a few tokens of framing */
    uint32_t tools;     /* tool or function definitions (their text is in the classes too) */

    uint32_t images;       /* image parts, given inline or by address */
    uint32_t images_sized; /* of these, how many had a size we could read */
    uint32_t files;        /* documents, PDFs */
    uint32_t audios;       /* audio parts */

    uint64_t image_px;   /* sum of width x height of the sized images */
    uint64_t blob_bytes; /* decoded bytes of inline files and audio */
    uint64_t text_bytes; /* decoded bytes of all text counted above */
};

#endif
