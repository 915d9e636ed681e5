use super::{StateDisk, space};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

#[tokio::test]
async fn a_directory_that_is_not_there_yet_is_on_the_disk_of_its_parent() {
    let there = tempfile::tempdir().unwrap();
    let disk = Arc::new(StateDisk::new(there.path().join("not/yet")));
    assert_eq!(disk.last(), None);
    disk.look().await;
    let (found, parent) = (disk.last().unwrap(), space(there.path()).unwrap());
    assert_eq!(found.size, parent.size);
    assert!(found.free > 0 && found.free <= found.size, "{found:?}");
    assert!(!disk.asking.load(Relaxed));
}

#[tokio::test]
async fn nobody_waits_for_a_disk_that_does_not_answer() {
    let disk = Arc::new(StateDisk::new(PathBuf::from("/")));
    disk.look().await;
    let known = disk.last();
    assert!(known.is_some());
    disk.asking.store(true, Relaxed);
    *disk.last.lock() = None;
    disk.look().await;
    assert_eq!(disk.last(), None);
}
