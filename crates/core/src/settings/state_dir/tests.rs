use super::*;

fn chosen(variables: &[(&str, &str)], writable: &[&str]) -> String {
    let choice = choose(&Environment {
        variable: &|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        },
        can_write: &|place| writable.iter().any(|start| place.starts_with(start)),
        temporary: PathBuf::from("/tmp"),
        user: 1000,
    });
    choice.to_string_lossy().into_owned()
}

#[test]
fn the_first_place_that_survives_a_reboot_is_taken() {
    let user = [("HOME", "/home/ann")];
    assert_eq!(
        chosen(&user, &["/home/ann"]),
        "/home/ann/.local/state/stoatflow"
    );
    assert_eq!(
        chosen(&user, &["/home/ann", "/var/lib"]),
        "/var/lib/stoatflow"
    );
    let xdg = [("HOME", "/home/ann"), ("XDG_STATE_HOME", "/data")];
    assert_eq!(chosen(&xdg, &["/data", "/var/lib"]), "/data/stoatflow");
    let unit = [
        ("STATE_DIRECTORY", "/var/lib/orders:/var/lib/more"),
        ("XDG_STATE_HOME", "/data"),
    ];
    assert_eq!(chosen(&unit, &["/var/lib", "/data"]), "/var/lib/orders");
}

#[test]
fn each_user_has_a_temporary_directory_where_there_is_no_other() {
    assert_eq!(
        chosen(&[("HOME", "/nonexistent")], &[]),
        "/tmp/stoatflow-1000"
    );
    assert_eq!(
        chosen(&[("XDG_STATE_HOME", "relative")], &["/"]),
        "/var/lib/stoatflow"
    );
}

#[test]
fn a_directory_can_be_made_below_one_that_can_be_written() {
    let place = std::env::temp_dir().join("not/yet/there");
    assert!(can_write(&place));
    assert!(!can_write(Path::new("/proc/version/below")));
    assert!(default_state_dir("localhost:9092").is_absolute());
    assert!(default_state_dir("embedded:").is_absolute());
    assert_eq!(
        default_state_dir("embedded:topics"),
        Path::new("topics/state")
    );
}

#[test]
fn permissions_are_those_of_owner_or_all() {
    assert!(may_write(1000, (1000, 0o755)));
    assert!(!may_write(1000, (1000, 0o555)));
    assert!(!may_write(1000, (0, 0o755)));
    assert!(may_write(1000, (0, 0o1777)));
    assert!(may_write(0, (1000, 0o700)));
}
