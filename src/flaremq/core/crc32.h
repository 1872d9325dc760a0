/* CRC-32 with the zlib polynomial, at memory speed. C and not Python because of the one instruction it is about.
 *
 * Slicing: eight table lookups per eight bytes; works everywhere. Folding: where the machine has a carry-less multiply, a
 * message is first replaced by sixteen bytes with the same remainder, four lanes of sixteen bytes at a time; slicing does
 * the rest. A CRC is the remainder of a polynomial division, so a block may be moved n bits down the message by
 * multiplying its two halves with x^n mod P: one step costs two multiplications. The register is kept in zlib's reflected
 * order, without the final complement.
 */
#ifndef FLAREMQ_CRC32
#define FLAREMQ_CRC32
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static uint32_t fmq_crc_tables[8][256];
static volatile int fmq_crc_ready;
static int fmq_crc_can_fold;

static void fmq_crc_prepare(void) { /* the same values whoever comes first: a race does no harm */
#if defined(__x86_64__) /* not __builtin_cpu_supports: that is a library's, and zig has it not for shared ones */
    unsigned int a, b, c, d;
    fmq_crc_can_fold = __get_cpuid(1, &a, &b, &c, &d) && c & 2;
#endif
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
        fmq_crc_tables[0][byte] = value;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int k = 1; k < 8; k++)
            fmq_crc_tables[k][byte] =
                (fmq_crc_tables[k - 1][byte] >> 8) ^ fmq_crc_tables[0][fmq_crc_tables[k - 1][byte] & 255];
    __atomic_thread_fence(__ATOMIC_RELEASE);
    fmq_crc_ready = 1;
}

static uint32_t fmq_crc_slicing(uint32_t crc, const uint8_t *data, int64_t length) {
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= crc;
        crc = fmq_crc_tables[7][word & 255] ^ fmq_crc_tables[6][word >> 8 & 255] ^ fmq_crc_tables[5][word >> 16 & 255] ^
              fmq_crc_tables[4][word >> 24 & 255] ^ fmq_crc_tables[3][word >> 32 & 255] ^
              fmq_crc_tables[2][word >> 40 & 255] ^ fmq_crc_tables[1][word >> 48 & 255] ^ fmq_crc_tables[0][word >> 56];
        data += 8;
        length -= 8;
    }
    while (length-- > 0) crc = crc >> 8 ^ fmq_crc_tables[0][(crc ^ *data++) & 255];
    return crc;
}

#if defined(__x86_64__)
#define FMQ_FOLD(lane, step, next) \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(lane, step, 0x00), _mm_clmulepi64_si128(lane, step, 0x11)), next)
#define FMQ_LANE(place) _mm_loadu_si128((const __m128i *)(place))

__attribute__((target("pclmul,sse2"))) static uint32_t fmq_crc_folding(const uint8_t *data, int64_t length) {
    __m128i step = _mm_set_epi64x(0x1C6E41596LL, 0x154442BD4LL); /* x^480, x^544: a lane 64 bytes down */
    __m128i a = _mm_xor_si128(FMQ_LANE(data), _mm_cvtsi32_si128(-1));
    __m128i b = FMQ_LANE(data + 16), c = FMQ_LANE(data + 32), d = FMQ_LANE(data + 48);
    for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
        a = FMQ_FOLD(a, step, FMQ_LANE(data));
        b = FMQ_FOLD(b, step, FMQ_LANE(data + 16));
        c = FMQ_FOLD(c, step, FMQ_LANE(data + 32));
        d = FMQ_FOLD(d, step, FMQ_LANE(data + 48));
    }
    step = _mm_set_epi64x(0x0CCAA009ELL, 0x1751997D0LL); /* x^96, x^160: a lane 16 bytes down */
    a = FMQ_FOLD(a, step, b);
    a = FMQ_FOLD(a, step, c);
    a = FMQ_FOLD(a, step, d);
    for (; length >= 16; data += 16, length -= 16) a = FMQ_FOLD(a, step, FMQ_LANE(data));
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)rest, a);
    return fmq_crc_slicing(fmq_crc_slicing(0, rest, 16), data, length);
}
#endif

static inline int64_t fmq_crc32(const uint8_t *data, int64_t length) {
    if (!fmq_crc_ready) fmq_crc_prepare();
#if defined(__x86_64__)
    if (length >= 64 && fmq_crc_can_fold) return (int64_t)(fmq_crc_folding(data, length) ^ 0xFFFFFFFFu);
#endif
    return (int64_t)(fmq_crc_slicing(0xFFFFFFFFu, data, length) ^ 0xFFFFFFFFu);
}
#endif
