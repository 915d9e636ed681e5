//! Tokens that are refused.

use super::OauthToken;

fn refused(text: &str, expires_in_s: f64, extension: (&str, &str)) -> String {
    let extensions = vec![(extension.0.to_owned(), extension.1.to_owned())];
    let made = OauthToken::checked(text.to_owned(), expires_in_s, None, extensions);
    made.unwrap_err().to_string()
}

#[test]
fn the_error_of_a_malformed_token_names_what_to_return() {
    let fine = ("logicalCluster", "lkc-1");
    for text in ["", "Bearer abc", "abc\n", "a\u{1}b", "tökén"] {
        assert!(
            refused(text, 60.0, fine).contains("return the token alone"),
            "{text:?}"
        );
    }
    assert!(refused("abc", -5.0, fine).contains("expired 5 s ago"));
    assert!(refused("abc", f64::NAN, fine).contains("return a new token"));
    assert!(refused("abc", 1.7e12, fine).contains("divide by 1000"));
    for extension in [("auth", "x"), ("", "x"), ("a-b", "x"), ("a", "\u{1}")] {
        assert!(
            refused("abc", 60.0, extension).contains("no SASL extension"),
            "{extension:?}"
        );
    }
}

#[test]
fn a_token_is_not_printed() {
    let extensions = vec![("pool".to_owned(), "hidden".to_owned())];
    let made = OauthToken::checked("hidden".to_owned(), 60.0, Some(String::new()), extensions);
    let made = made.unwrap();
    assert_eq!(made.principal, None);
    assert!(!format!("{made:?}").contains("hidden"));
}
