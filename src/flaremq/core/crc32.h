/* CRC-32 with the zlib polynomial, at memory speed. C and not Python because of the one instruction it is about.
 *
 * Slicing: eight table lookups per eight bytes; works everywhere. Folding: where the machine has a carry-less multiply, a
 * message is replaced by sixteen bytes with the same remainder, four lanes of sixteen bytes at a time, or of sixty-four
 * where it multiplies so many at once. A CRC is the remainder of a polynomial division, so a block may be moved n bits
 * down the message by multiplying its two halves with x^n mod P: one step costs two multiplications. The register is kept
 * in zlib's reflected order, without the final complement.
 */
#ifndef FLAREMQ_CRC32
#define FLAREMQ_CRC32
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* Sixty-four bytes at a time by compilers that know these instructions: the others do the rest as well. */
#if defined(__x86_64__) && (defined(__clang__) ? __clang_major__ >= 6 : __GNUC__ >= 8)
#define FMQ_HAS_WIDE
#endif

static uint32_t fmq_crc_tables[8][256];
static int fmq_crc_ready;
static int fmq_crc_can_fold, fmq_crc_can_fold_wide;

static void fmq_crc_prepare(void) { /* the same values whoever comes first: a race does no harm */
#if defined(__x86_64__) /* not __builtin_cpu_supports: that is a library's, and zig has it not for shared ones */
    unsigned int a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        fmq_crc_can_fold = (c >> 1 & 1) && (c >> 9 & 1) && (c >> 19 & 1); /* PCLMULQDQ, SSSE3, SSE4.1 */
        if (c >> 27 & 1) { /* OSXSAVE: the system says which registers it keeps; all of AVX-512 is 0xE6 */
            unsigned int low, high;
            __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
            if ((low & 0xE6) == 0xE6 && __get_cpuid_count(7, 0, &a, &b, &c, &d))
                fmq_crc_can_fold_wide = fmq_crc_can_fold && (b >> 16 & 1) && (c >> 10 & 1); /* AVX512F, VPCLMULQDQ */
        }
    }
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
    __atomic_store_n(&fmq_crc_ready, 1, __ATOMIC_RELEASE);
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
#define FMQ_STEP_16 _mm_set_epi64x(0x0CCAA009ELL, 0x1751997D0LL) /* x^96, x^160: a lane 16 bytes down */
#define FMQ_STEP_64 0x1C6E41596LL, 0x154442BD4LL                 /* x^480, x^544 */
#define FMQ_STEP_256 0x1322D1430LL, 0x11542778ALL                /* x^2016, x^2080 */
#define FMQ_TARGET "pclmul,ssse3,sse4.1"

/* The register of a message that is the sixteen bytes of ``a``, then the ``length`` bytes at ``data``. Sixteen bytes
 * before ``data + length`` may be read. */
__attribute__((target(FMQ_TARGET))) static inline uint32_t fmq_crc_reduce(__m128i a, const uint8_t *data, int64_t length) {
    for (; length >= 16; data += 16, length -= 16) a = FMQ_FOLD(a, FMQ_STEP_16, FMQ_LANE(data));
    if (length > 0) { /* the first bytes of a, as many as are left, one lane down; the others and what is left below */
        static const int8_t shifts[48] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                          0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                          -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
        __m128i up = FMQ_LANE(shifts + length);
        __m128i rest =
            _mm_blendv_epi8(FMQ_LANE(data + length - 16), _mm_shuffle_epi8(a, FMQ_LANE(shifts + 16 + length)), up);
        a = FMQ_FOLD(_mm_shuffle_epi8(a, up), FMQ_STEP_16, rest);
    }
    __m128i low = _mm_set_epi64x(0, 0xFFFFFFFFLL); /* 128 bits to 96, to 64, and Barrett's reduction to 32 */
    __m128i inverse = _mm_set_epi64x(0x1F7011641LL, 0x1DB710641LL);
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, FMQ_STEP_16, 0x10));
    a = _mm_xor_si128(
        _mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low), _mm_set_epi64x(0, 0x163CD6124LL), 0x00));
    __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low), inverse, 0x10), low);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, _mm_clmulepi64_si128(quotient, inverse, 0x00)), 1);
}

__attribute__((target(FMQ_TARGET))) static uint32_t fmq_crc_folding(const uint8_t *data, int64_t length) {
    __m128i a = _mm_xor_si128(FMQ_LANE(data), _mm_cvtsi32_si128(-1));
    if (length < 64) return fmq_crc_reduce(a, data + 16, length - 16);
    __m128i b = FMQ_LANE(data + 16), c = FMQ_LANE(data + 32), d = FMQ_LANE(data + 48);
    __m128i step = _mm_set_epi64x(FMQ_STEP_64);
    for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
        a = FMQ_FOLD(a, step, FMQ_LANE(data));
        b = FMQ_FOLD(b, step, FMQ_LANE(data + 16));
        c = FMQ_FOLD(c, step, FMQ_LANE(data + 32));
        d = FMQ_FOLD(d, step, FMQ_LANE(data + 48));
    }
    a = FMQ_FOLD(a, FMQ_STEP_16, b);
    a = FMQ_FOLD(a, FMQ_STEP_16, c);
    a = FMQ_FOLD(a, FMQ_STEP_16, d);
    return fmq_crc_reduce(a, data, length);
}

#ifdef FMQ_HAS_WIDE
#define FMQ_WIDE_FOLD(lane, step, next) \
    _mm512_ternarylogic_epi64( \
        _mm512_clmulepi64_epi128(lane, step, 0x00), _mm512_clmulepi64_epi128(lane, step, 0x11), next, 0x96)
#define FMQ_WIDE_LANE(place) _mm512_loadu_si512(place)

__attribute__((target(FMQ_TARGET ",avx512f,vpclmulqdq"))) static uint32_t fmq_crc_folding_wide(
    const uint8_t *data, int64_t length) {
    __m512i a = _mm512_xor_si512(FMQ_WIDE_LANE(data), _mm512_maskz_set1_epi32(1, -1));
    __m512i b = FMQ_WIDE_LANE(data + 64), c = FMQ_WIDE_LANE(data + 128), d = FMQ_WIDE_LANE(data + 192);
    __m512i step = _mm512_broadcast_i32x4(_mm_set_epi64x(FMQ_STEP_256));
    for (data += 256, length -= 256; length >= 256; data += 256, length -= 256) {
        a = FMQ_WIDE_FOLD(a, step, FMQ_WIDE_LANE(data));
        b = FMQ_WIDE_FOLD(b, step, FMQ_WIDE_LANE(data + 64));
        c = FMQ_WIDE_FOLD(c, step, FMQ_WIDE_LANE(data + 128));
        d = FMQ_WIDE_FOLD(d, step, FMQ_WIDE_LANE(data + 192));
    }
    step = _mm512_broadcast_i32x4(_mm_set_epi64x(FMQ_STEP_64));
    a = FMQ_WIDE_FOLD(a, step, b);
    a = FMQ_WIDE_FOLD(a, step, c);
    a = FMQ_WIDE_FOLD(a, step, d);
    for (; length >= 64; data += 64, length -= 64) a = FMQ_WIDE_FOLD(a, step, FMQ_WIDE_LANE(data));
    __m128i lane = _mm512_castsi512_si128(a);
    lane = FMQ_FOLD(lane, FMQ_STEP_16, _mm512_extracti32x4_epi32(a, 1));
    lane = FMQ_FOLD(lane, FMQ_STEP_16, _mm512_extracti32x4_epi32(a, 2));
    lane = FMQ_FOLD(lane, FMQ_STEP_16, _mm512_extracti32x4_epi32(a, 3));
    return fmq_crc_reduce(lane, data, length);
}
#endif
#endif

static inline int64_t fmq_crc32(const uint8_t *data, int64_t length) {
    if (!__atomic_load_n(&fmq_crc_ready, __ATOMIC_ACQUIRE)) fmq_crc_prepare(); /* the tables are seen too */
#if defined(__x86_64__)
#ifdef FMQ_HAS_WIDE
    if (length >= 512 && fmq_crc_can_fold_wide) return (int64_t)(fmq_crc_folding_wide(data, length) ^ 0xFFFFFFFFu);
#endif
    if (length >= 16 && fmq_crc_can_fold) return (int64_t)(fmq_crc_folding(data, length) ^ 0xFFFFFFFFu);
#endif
    return (int64_t)(fmq_crc_slicing(0xFFFFFFFFu, data, length) ^ 0xFFFFFFFFu);
}
#endif
