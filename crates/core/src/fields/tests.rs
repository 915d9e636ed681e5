//! Parts of values that implement `Open`.

use super::*;

fn fields(members: &[(&str, i64)]) -> Fields {
    let members = members.iter();
    let members = members.map(|(name, value)| (Text::from(*name), Datum::Int(*value)));
    Fields(members.collect())
}

/// Implements only what `Open` requires.
struct Least(Datum);

impl Open for Least {
    fn is_list(&self) -> bool {
        matches!(self.0, Datum::List(_))
    }

    fn parts(&self) -> Result<Datum> {
        Ok(self.0.clone())
    }
}

#[test]
fn parts_are_found_in_the_list_of_all() {
    let object = Least(fields(&[("a", 1), ("b", 2), ("a", 3)]).datum());
    assert_eq!(object.member("a").unwrap(), Some((2, Datum::Int(3))));
    assert_eq!(object.member("c").unwrap(), None);
    assert_eq!(object.element(0).unwrap(), None);
    let list = Least(Datum::List([Datum::Int(1), Datum::Null].into()));
    assert_eq!(list.element(1).unwrap(), Some(Datum::Null));
    assert_eq!(list.element(2).unwrap(), None);
    assert_eq!(list.member("a").unwrap(), None);
}

#[test]
fn fields_are_open() {
    let datum = fields(&[("a", 1), ("b", 2)]).datum();
    let Datum::Opaque(object) = &datum else {
        panic!("{datum:?}");
    };
    let open = object.open().unwrap();
    assert!(!open.is_list());
    assert!(!open.is_for_change());
    assert_eq!(open.member("b").unwrap(), Some((1, Datum::Int(2))));
    let Fields(members) = open.as_written().unwrap();
    assert_eq!(members, fields(&[("a", 1), ("b", 2)]).0);
}

#[test]
fn members_are_set_as_a_dict_is_updated() {
    let object = Least(fields(&[("a", 1), ("b", 2), ("a", 3)]).datum());
    let changed = object.with_members(fields(&[("c", 4), ("a", 5)])).unwrap();
    let Fields(members) = Fields::of(&changed).unwrap();
    assert_eq!(
        members,
        &fields(&[("a", 5), ("b", 2), ("a", 5), ("c", 4)]).0
    );
    let list = Least(Datum::List([Datum::Null].into()));
    assert!(list.with_members(fields(&[])).is_err());
}
