use super::*;

#[test]
fn a_partition_that_goes_on_before_its_end_has_lost_records() {
    let mut ends = AppendEnds::default();
    let topics: [Arc<str>; 2] = ["counts".into(), "sums".into()];
    ends.remember(&topics);
    ends.append("counts", Partition(0), Offset(0), 10);
    ends.append("counts", Partition(1), Offset(0), 5);
    // A transaction marker lies in between.
    ends.append("counts", Partition(0), Offset(11), 4);
    assert!(ends.take_loss("a:1").is_none());
    ends.append("counts", Partition(0), Offset(14), 1);
    let loss = ends.take_loss("a:1").unwrap().to_string();
    assert!(loss.contains("counts-0"), "{loss}");
    assert!(
        loss.contains("ended at 15") && loss.contains("offset 14"),
        "{loss}"
    );
    ends.append("counts", Partition(0), Offset(15), 2);
    assert!(ends.take_loss("a:1").is_none(), "it is said once");
}

#[test]
fn only_ends_of_remembered_topics_are_checked() {
    let mut ends = AppendEnds::default();
    ends.remember(&["counts".into()]);
    ends.note("counts", Partition(0), Offset(20));
    ends.note("counts", Partition(0), Offset(10));
    ends.append("out", Partition(0), Offset(9), 1);
    ends.append("out", Partition(0), Offset(3), 1);
    assert!(ends.take_loss("a:1").is_none(), "others write to it too");
    ends.append("counts", Partition(0), Offset(19), 8);
    assert!(ends.take_loss("a:1").is_some());
    ends.remember(&[]);
    ends.append("counts", Partition(0), Offset(0), 1);
    assert!(ends.take_loss("a:1").is_none());
}
