use super::{StateDisk, space};

#[tokio::test]
async fn a_directory_that_is_not_there_yet_is_on_the_disk_of_its_parent() {
    let there = tempfile::tempdir().unwrap();
    let disk = StateDisk::new(there.path().join("not/yet"));
    assert_eq!(disk.last(), None);
    disk.refresh().await;
    let (found, parent) = (disk.last().unwrap(), space(there.path()).unwrap());
    assert_eq!(found.size, parent.size);
    assert!(found.free > 0 && found.free <= found.size, "{found:?}");
}
