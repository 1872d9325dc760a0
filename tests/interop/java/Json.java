import java.util.Map;

/** Just enough JSON to print results: maps, iterables, long arrays, strings, numbers, booleans, null. Output is ASCII. */
final class Json {
    private Json() { }

    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map) {
            char separator = '{';
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                separator = ',';
                quote(out, String.valueOf(entry.getKey()));
                out.append(':');
                write(out, entry.getValue());
            }
            out.append(separator == '{' ? "{}" : "}");
        } else if (value instanceof Iterable) {
            char separator = '[';
            for (Object item : (Iterable<?>) value) {
                out.append(separator);
                separator = ',';
                write(out, item);
            }
            out.append(separator == '[' ? "[]" : "]");
        } else if (value instanceof long[]) {
            char separator = '[';
            for (long item : (long[]) value) {
                out.append(separator).append(item);
                separator = ',';
            }
            out.append(separator == '[' ? "[]" : "]");
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
