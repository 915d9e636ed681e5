use super::*;

#[global_allocator]
static MEMORY: Watched = Watched;

/// Reads four bytes of length, then that many bytes.
fn reader(input: &[u8], trusting: bool) {
    let Some((size, rest)) = input.split_first_chunk::<4>() else {
        return;
    };
    let size = u32::from_be_bytes(*size) as usize;
    if trusting || size <= rest.len() {
        let mut copy = Vec::with_capacity(size.min(1 << 30));
        copy.extend_from_slice(&rest[..size.min(rest.len())]);
        std::hint::black_box(copy);
    }
}

fn target() -> FuzzTarget<'static> {
    FuzzTarget::new(
        "a length and its bytes",
        vec![[&[0, 0, 0, 9][..], b"some text"].concat()],
    )
}

#[test]
fn a_reader_that_checks_passes() {
    target().run(|input| reader(input, false));
}

#[test]
#[should_panic(expected = "bytes at once")]
fn a_length_that_is_believed_is_found() {
    target().run(|input| reader(input, true));
}

#[test]
#[should_panic(expected = "out of range")]
fn a_panic_is_found() {
    target().run(|input| {
        if input.len() >= 4 {
            let size = usize::from(input[3]);
            std::hint::black_box(&input[4..4 + size]);
        }
    });
}
