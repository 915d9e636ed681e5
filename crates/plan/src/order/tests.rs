use super::*;

#[test]
fn hash_sets_are_walked_as_in_java() {
    // new HashSet<>(List.of("b", "a", "orders", "in")) prints [a, b, in, orders] on Java 17.
    let names = ["b", "a", "orders", "in"];
    let order = hash_order(&names, copied_capacity(4));
    assert_eq!(
        order.iter().map(|&i| names[i]).collect::<Vec<_>>(),
        ["a", "b", "in", "orders"]
    );
}

#[test]
fn a_table_grows_past_three_quarters() {
    // "p" and "a" (112 and 97) change their order between 16 and 32 buckets.
    let mut names = vec!["p", "a"];
    assert_eq!(hash_order(&names, 16), [0, 1]);
    assert_eq!(hash_order(&names, 32), [1, 0]);
    names.extend(["b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]);
    assert_eq!(hash_order(&names, 16)[0], 0, "12 of 16 are not too many");
    names.push("l");
    assert_eq!(
        hash_order(&names, 16),
        hash_order(&names, 32),
        "13 of 16 are"
    );
    assert_ne!(hash_order(&names, 16)[0], 0);
}

#[test]
fn a_tree_sorts_what_has_an_order() {
    let mut x = 7_usize;
    for n in 0..200 {
        let mut set = TreeSet::default();
        let mut expected = Vec::new();
        for _ in 0..n {
            x = (x * 1_103_515_245 + 12345) % 2_147_483_648;
            set.add(x % 150, |a, b| a < b);
            expected.push(x % 150);
        }
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(set.items(), expected);
        assert_eq!(black_height(&set, set.root).0, expected.len());
    }
}

/// Number of entries and black height; both branches must agree, and a red node has no red child.
fn black_height(set: &TreeSet, at: Option<usize>) -> (usize, usize) {
    let Some(e) = at else { return (0, 1) };
    let [left, right] = set.entries[e].down;
    assert!(!set.red(at) || (!set.red(left) && !set.red(right)));
    let ((n, h), (m, k)) = (black_height(set, left), black_height(set, right));
    assert_eq!(h, k);
    (n + m + 1, h + usize::from(!set.entries[e].red))
}
