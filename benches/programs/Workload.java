// Code that the JIT compiler warms up, inlines and compiles, with enough garbage to collect.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public final class Workload {
    interface Operation { long apply(long value); }

    public static void main(String[] arguments) {
        Operation[] operations = {v -> v * 31 + 7, v -> v ^ (v >>> 13), v -> v + (v << 3)};
        long value = 1;
        for (int i = 0; i < 60_000_000; i++) {
            value = operations[i % 3].apply(value);
        }
        System.out.println("value " + value);

        Map<String, Integer> counts = new HashMap<>();
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 600_000; i++) {
            String name = "name" + (i * 7919L % 5003);
            counts.merge(name, 1, Integer::sum);
            if (i % 100 == 0) {
                names.add(name);
            }
        }
        names.sort(null);
        System.out.println(names.get(0) + " " + names.get(names.size() - 1) + " " + counts.get("name17"));
    }
}
