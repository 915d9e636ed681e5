//! Texts that RocksDB 11 really writes, and the error kinds they map to.

use super::*;

#[test]
fn texts_of_rocksdb_are_told_apart() {
    let cases = [
        (
            Kind::IOError,
            "IO error: No space left on device: While appending to file: /s/000012.log: No space left \
                on device",
            ErrorKind::DiskFull,
        ),
        (
            Kind::IOError,
            "IO error: While lock file: /s/LOCK: Resource temporarily unavailable",
            ErrorKind::StateLocked,
        ),
        (
            Kind::IOError,
            "IO error: lock hold by current process, acquire time 17: /s/LOCK: No locks available",
            ErrorKind::StateLocked,
        ),
        (
            Kind::Corruption,
            "Corruption: block checksum mismatch",
            ErrorKind::StateCorrupt,
        ),
        (
            Kind::IOError,
            "IO error: No such file or directory: While open a file for random read: /s/000009.sst",
            ErrorKind::StateCorrupt,
        ),
        (
            Kind::IOError,
            "IO error: while open a file for lock: /s/LOCK: Permission denied",
            ErrorKind::Config,
        ),
        (Kind::Aborted, "Operation aborted", ErrorKind::Internal),
    ];
    for (kind, text, expected) in cases {
        assert_eq!(classify(&kind, text), expected, "{text}");
    }
}

#[test]
fn every_error_names_the_directory_and_a_next_step() {
    let place = DatabaseDir::new("/data/app/rocksdb".into());
    for kind in [
        ErrorKind::StateLocked,
        ErrorKind::StateCorrupt,
        ErrorKind::DiskFull,
        ErrorKind::Config,
        ErrorKind::Internal,
    ] {
        let error = place.say(kind, "the cause");
        assert_eq!(error.kind(), kind);
        let text = error.to_string();
        assert!(
            text.contains("/data/app/rocksdb")
                && text.contains("the cause")
                && text.contains("Next: "),
            "{text}"
        );
    }
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    assert_eq!(place.io(&full).kind(), ErrorKind::DiskFull);
}
