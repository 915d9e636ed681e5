package stoatflow.oracle;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;

/**
 * The public methods of Kafka Streams and its test utilities, by class.
 *
 * <p>Gives: one JSON object, from the name of each public class outside of the internal packages
 * to the names of the public methods that it declares itself; `new` is a constructor. Names of
 * nested classes have dots.
 */
public final class Methods {
    private static final List<String> OF_OBJECT = List.of("equals", "hashCode", "toString");

    private Methods() {}

    public static void main(String[] arguments) throws IOException, URISyntaxException {
        Map<String, Object> found = new TreeMap<>();
        for (Class<?> sample : List.of(Topology.class, TopologyTestDriver.class)) {
            Path jar = Path.of(sample.getProtectionDomain().getCodeSource().getLocation().toURI());
            try (JarFile opened = new JarFile(jar.toFile())) {
                for (String name : opened.stream().map(entry -> entry.getName()).sorted().toList()) {
                    if (name.startsWith("org/apache/kafka/streams/") && name.endsWith(".class")) {
                        add(name.substring(0, name.length() - ".class".length()).replace('/', '.'), found);
                    }
                }
            }
        }
        System.out.println(Json.write(found));
    }

    private static void add(String name, Map<String, Object> found) {
        if (name.contains(".internals.")) {
            return;
        }
        Class<?> type;
        try {
            type = Class.forName(name, false, Methods.class.getClassLoader());
        } catch (ReflectiveOperationException | LinkageError error) {
            return;
        }
        if (!visible(type)) {
            return;
        }
        TreeSet<String> names = new TreeSet<>();
        for (Method method : type.getDeclaredMethods()) {
            if (Modifier.isPublic(method.getModifiers())
                    && !method.isSynthetic()
                    && !OF_OBJECT.contains(method.getName())) {
                names.add(method.getName());
            }
        }
        Stream<Constructor<?>> constructors = Arrays.stream(type.getDeclaredConstructors());
        if (!Modifier.isAbstract(type.getModifiers())
                && constructors.anyMatch(made -> Modifier.isPublic(made.getModifiers()))) {
            names.add("new");
        }
        if (!names.isEmpty()) {
            found.put(type.getCanonicalName(), List.copyOf(names));
        }
    }

    private static boolean visible(Class<?> type) {
        for (Class<?> one = type; one != null; one = one.getEnclosingClass()) {
            if (!Modifier.isPublic(one.getModifiers())) {
                return false;
            }
        }
        return type.getCanonicalName() != null && !type.isAnnotation();
    }
}
