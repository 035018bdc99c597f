import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.*;

public class Main {
    interface Shape { double area(); }
    record Square(double side) implements Shape { public double area() { return side * side; } }
    record Circle(double radius) implements Shape { public double area() { return 3 * radius * radius; } }

    static int depth(int n) { return depth(n + 1) + 1; }

    static int length(String s) { return s.length(); }

    public static void main(String[] arguments) throws Exception {
        int hash = 1;
        for (int i = 0; i < 20_000_000; i++) hash = hash * 31 + i;
        System.out.println(hash);

        int nulls = 0;
        for (int i = 0; i < 50_000; i++) {
            try { nulls += length(i % 100 == 0 ? null : "ab"); } catch (NullPointerException e) { nulls += 1000; }
        }
        System.out.println(nulls);
        try { depth(0); } catch (StackOverflowError e) { System.out.println("stack overflow"); }
        try { System.out.println(1 / (arguments.length)); } catch (ArithmeticException e) { System.out.println(e.getMessage()); }
        try { Object o = "x"; System.out.println((Integer) o); } catch (ClassCastException e) { System.out.println("cast"); }

        List<int[]> kept = new ArrayList<>();
        for (int i = 0; i < 3000; i++) { int[] block = new int[10_000]; block[i % 100] = i; if (i % 100 == 0) kept.add(block); }
        System.gc();
        System.out.println(kept.stream().mapToInt(b -> Arrays.stream(b).sum()).sum());

        Map<String, Integer> counts = new TreeMap<>();
        for (int i = 0; i < 200_000; i++) counts.merge("k" + i * 7919 % 1009, 1, Integer::sum);
        System.out.println(counts.size() + " " + counts.get("k5"));
        List<Shape> shapes = IntStream.range(0, 1000).mapToObj(i -> i % 2 == 0 ? new Square(i) : new Circle(i)).collect(Collectors.toList());
        System.out.println(shapes.stream().sorted(Comparator.comparingDouble(Shape::area).reversed()).limit(2).map(Object::toString).collect(Collectors.joining(" ")));

        AtomicLong sum = new AtomicLong();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> futures = new ArrayList<>();
        for (int t = 0; t < 16; t++) {
            int n = t;
            futures.add(pool.submit(() -> { for (int i = 0; i < 10_000; i++) sum.addAndGet(i % (n + 1)); if (n == 7) throw new IllegalStateException("seven"); return n; }));
        }
        int done = 0;
        for (Future<Integer> future : futures) { try { done += future.get(); } catch (ExecutionException e) { System.out.println(e.getCause().getMessage()); } }
        pool.shutdown();
        System.out.println(done + " " + sum.get());
        Object lock = new Object();
        int[] turn = {0};
        Thread other = new Thread(() -> { for (int i = 0; i < 500; i++) synchronized (lock) { while (turn[0] % 2 == 0) { try { lock.wait(); } catch (InterruptedException e) { return; } } turn[0]++; lock.notifyAll(); } });
        other.start();
        for (int i = 0; i < 500; i++) synchronized (lock) { while (turn[0] % 2 == 1) lock.wait(); turn[0]++; lock.notifyAll(); }
        other.join();
        System.out.println(turn[0]);
        System.out.println(IntStream.rangeClosed(1, 1000).parallel().mapToObj(Integer::toString).collect(Collectors.joining()).hashCode());
        Thread interrupted = new Thread(() -> { try { Thread.sleep(100_000); } catch (InterruptedException e) { System.out.println("interrupted"); } });
        interrupted.start(); interrupted.interrupt(); interrupted.join();
        System.out.printf("%.6f %s%n", Math.sin(1) * Math.pow(2, 0.5), new java.math.BigInteger("2").pow(200));
        System.exit(0);
    }
}
