import java.util.Arrays;
import java.util.Locale;

/** Times of all threads, and the figures made of them. */
final class Times {
    private long[] all = new long[0];

    synchronized void merge(Samples samples) {
        int before = all.length;
        all = Arrays.copyOf(all, before + samples.count);
        System.arraycopy(samples.values, 0, all, before, samples.count);
    }

    synchronized int count() {
        return all.length;
    }

    private double at(double share) {
        return all.length == 0 ? 0 : all[Math.min(all.length - 1, (int) (share * all.length))] / 1000.0;
    }

    synchronized String json(long messages, double seconds, long failed) {
        Arrays.sort(all);
        return String.format(Locale.ROOT,
            "{\"messages\":%d,\"seconds\":%.3f,\"msg_s\":%.1f,\"calls\":%d,\"failed\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,"
                + "\"p999_us\":%.1f,\"max_us\":%.1f}",
            messages, seconds, messages / seconds, all.length, failed, at(0.5), at(0.99), at(0.999), at(1));
    }
}

/** Times of one thread. */
final class Samples {
    long[] values = new long[1 << 12];
    int count;

    void add(long value) {
        if (count == values.length) {
            values = Arrays.copyOf(values, 2 * count);
        }
        values[count++] = value;
    }
}
