use super::*;

#[test]
fn the_drawing_and_the_code_agree() {
    let allowed: Vec<_> = Lifecycle::ALL
        .iter()
        .flat_map(|a| {
            Lifecycle::ALL
                .iter()
                .filter(|b| a.may_become(**b))
                .map(|b| format!("{}>{}", a.name(), b.name()))
        })
        .collect();
    assert_eq!(
        allowed,
        [
            "CREATED>STARTING",
            "CREATED>STOPPED",
            "STARTING>RESTORING",
            "STARTING>STOPPING",
            "STARTING>ERROR",
            "RESTORING>STARTING",
            "RESTORING>RUNNING",
            "RESTORING>STOPPING",
            "RESTORING>ERROR",
            "RUNNING>STARTING",
            "RUNNING>PAUSED",
            "RUNNING>STOPPING",
            "RUNNING>ERROR",
            "PAUSED>STARTING",
            "PAUSED>RUNNING",
            "PAUSED>STOPPING",
            "PAUSED>ERROR",
            "STOPPING>STOPPED",
            "STOPPING>ERROR",
        ]
    );
}

#[test]
fn nothing_follows_the_end() {
    for end in Lifecycle::ALL.iter().filter(|s| s.is_final()) {
        assert!(Lifecycle::ALL.iter().all(|next| !end.may_become(*next)));
    }
}
