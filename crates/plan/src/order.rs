//! The iteration orders of Java's collections, which are visible in `topology.describe()`.
//!
//! Takes names or indexes, returns the order in which `HashSet` and `TreeSet` iterate over them. Kafka
//! Streams lists neighbours in a `TreeSet` whose comparator reads sizes that still grow while the set is
//! filled, so the text depends on hash order and on the shape of the tree; both are reproduced exactly
//! here. Used for the text only.

/// The iteration order of a `HashSet<String>` (or of the keys of a `HashMap`), as indexes.
pub(crate) fn hash_order(names: &[&str], capacity: usize) -> Vec<usize> {
    let mut table = capacity;
    // A table doubles when it is more than three quarters full.
    while names.len() * 4 > table * 3 {
        table *= 2;
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&i| bucket(names[i], table));
    order
}

/// The capacity of `new HashSet<>(collection)`.
pub(crate) fn copied_capacity(len: usize) -> usize {
    (len * 4 / 3 + 1).max(16).next_power_of_two()
}

fn bucket(name: &str, table: usize) -> usize {
    let hash = name
        .encode_utf16()
        .fold(0_u32, |h, c| h.wrapping_mul(31).wrapping_add(u32::from(c)));
    (hash ^ (hash >> 16)) as usize & (table - 1)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    item: usize,
    red: bool,
    up: Option<usize>,
    /// Left, right.
    down: [Option<usize>; 2],
}

/// The insertion part of `java.util.TreeMap` (the red-black tree of CLR).
#[derive(Debug, Default)]
pub(crate) struct TreeSet {
    entries: Vec<Entry>,
    root: Option<usize>,
}

impl TreeSet {
    /// Adds an item; `less(a, b)` compares by the values of this moment.
    pub(crate) fn add(&mut self, item: usize, less: impl Fn(usize, usize) -> bool) {
        let new = self.entries.len();
        let mut up = None;
        let mut side = 0;
        let mut at = self.root;
        while let Some(e) = at {
            if self.entries[e].item == item {
                return;
            }
            side = usize::from(!less(item, self.entries[e].item));
            up = at;
            at = self.entries[e].down[side];
        }
        self.entries.push(Entry {
            item,
            red: true,
            up,
            down: [None, None],
        });
        match up {
            None => self.root = Some(new),
            Some(up) => self.entries[up].down[side] = Some(new),
        }
        self.rebalance(new);
    }

    /// Its items in ascending order, as compared when they were added.
    pub(crate) fn items(&self) -> Vec<usize> {
        let mut out = Vec::with_capacity(self.entries.len());
        let mut path = Vec::new();
        let mut at = self.root;
        while at.is_some() || !path.is_empty() {
            while let Some(e) = at {
                path.push(e);
                at = self.entries[e].down[0];
            }
            let e: usize = path.pop().expect("the loop runs while there is a path");
            out.push(self.entries[e].item);
            at = self.entries[e].down[1];
        }
        out
    }

    fn red(&self, e: Option<usize>) -> bool {
        e.is_some_and(|e| self.entries[e].red)
    }

    fn rebalance(&mut self, mut x: usize) {
        while let Some(mut parent) = self.entries[x].up.filter(|&p| self.entries[p].red) {
            let Some(mut grand) = self.entries[parent].up else {
                break;
            };
            let side = usize::from(self.entries[grand].down[1] == Some(parent));
            let uncle = self.entries[grand].down[1 - side];
            if let Some(uncle) = uncle.filter(|_| self.red(uncle)) {
                self.entries[parent].red = false;
                self.entries[uncle].red = false;
                self.entries[grand].red = true;
                x = grand;
                continue;
            }
            if self.entries[parent].down[1 - side] == Some(x) {
                x = parent;
                self.rotate(x, side);
                parent = self.entries[x].up.expect("a rotation put one above it");
                grand = self.entries[parent].up.expect("it had two ancestors");
            }
            self.entries[parent].red = false;
            self.entries[grand].red = true;
            self.rotate(grand, 1 - side);
        }
        if let Some(root) = self.root {
            self.entries[root].red = false;
        }
    }

    /// Rotates: moves an entry down to `side`; its child on the other side takes its place.
    fn rotate(&mut self, p: usize, side: usize) {
        let Some(r) = self.entries[p].down[1 - side] else {
            return;
        };
        let inner = self.entries[r].down[side];
        self.entries[p].down[1 - side] = inner;
        if let Some(inner) = inner {
            self.entries[inner].up = Some(p);
        }
        let up = self.entries[p].up;
        self.entries[r].up = up;
        match up {
            None => self.root = Some(r),
            Some(up) => {
                let at = usize::from(self.entries[up].down[1] == Some(p));
                self.entries[up].down[at] = Some(r);
            }
        }
        self.entries[r].down[side] = Some(p);
        self.entries[p].up = Some(r);
    }
}

#[cfg(test)]
mod tests;
