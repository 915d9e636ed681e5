use super::*;

/// Bytes that are mapped block by block.
fn mapped() -> usize {
    // SAFETY: only reads.
    unsafe { libc::mallinfo2() }.hblkhd
}

#[test]
fn a_block_that_was_given_back_does_not_change_where_others_come_from() {
    keep_large_blocks_apart();
    drop(std::hint::black_box(vec![1u8; 16 << 20]));
    // Other tests of this process take and give blocks too, none of this size.
    let before = mapped();
    let block = std::hint::black_box(vec![1u8; 12 << 20]);
    assert!(mapped() >= before + (8 << 20), "{before} {}", mapped());
    drop(block);
}
