use super::*;

/// Bytes of blocks that are mapped one by one.
fn mapped() -> usize {
    // SAFETY: only reads.
    unsafe { libc::mallinfo2() }.hblkhd
}

#[test]
fn a_block_that_was_given_back_does_not_change_where_others_come_from() {
    set_mmap_threshold();
    drop(std::hint::black_box(vec![1u8; 16 << 20]));
    // Other tests of this process allocate too, but not nearly as much.
    let before = mapped();
    let block = |_| std::hint::black_box(Vec::<u8>::with_capacity(12 << 20));
    let blocks: Vec<_> = (0..32).map(block).collect();
    assert!(mapped() >= before + (256 << 20), "{before} {}", mapped());
    drop(blocks);
}
