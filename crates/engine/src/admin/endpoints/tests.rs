//! Which endpoint a request reaches.

use super::*;

fn endpoint(method: &str, path: &str) -> Endpoint {
    Endpoint {
        method: method.to_owned(),
        path: path.to_owned(),
        summary: "What it does.".to_owned(),
        timeout: Duration::from_secs(20),
    }
}

fn parameters(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    all.iter().map(owned).collect()
}

#[test]
fn the_most_specific_path_wins() {
    let endpoints = Endpoints::default();
    for (method, path) in [
        ("GET", "/orders/{id}"),
        ("GET", "/orders/latest"),
        ("POST", "/orders/{order}"),
        ("GET", "/orders/{id}/items/{item}"),
        ("DELETE", "/cache"),
    ] {
        endpoints.add(endpoint(method, path)).unwrap();
    }
    let found = |number, all: &[(&str, &str)]| Route::Found {
        number,
        parameters: parameters(all),
        timeout: Duration::from_secs(20),
    };
    assert_eq!(
        endpoints.route("GET", &["orders", "7"]),
        found(0, &[("id", "7")])
    );
    assert_eq!(
        endpoints.route("HEAD", &["orders", "latest"]),
        found(1, &[])
    );
    assert_eq!(
        endpoints.route("POST", &["orders", "latest"]),
        found(2, &[("order", "latest")])
    );
    assert_eq!(
        endpoints.route("GET", &["orders", "7", "items", "a/b"]),
        found(3, &[("id", "7"), ("item", "a/b")])
    );
    for nothing in [
        &["orders"][..],
        &["orders", ""],
        &["orders", "7", "x"],
        &[""],
    ] {
        assert_eq!(
            endpoints.route("GET", nothing),
            Route::Nothing,
            "{nothing:?}"
        );
    }
    assert_eq!(
        endpoints.route("GET", &["cache"]),
        Route::OtherMethods(BTreeSet::from(["DELETE".to_owned()]))
    );
}

#[test]
fn wrong_endpoints_are_refused() {
    let endpoints = Endpoints::default();
    endpoints.add(endpoint("GET", "/orders/{id}")).unwrap();
    let long = Endpoint {
        timeout: Duration::from_secs(61),
        ..endpoint("GET", "/long")
    };
    let zero = Endpoint {
        timeout: Duration::ZERO,
        ..endpoint("GET", "/zero")
    };
    for wrong in [
        endpoint("GET", "/orders/{other}"),
        endpoint("get", "/a"),
        endpoint("HEAD", "/a"),
        endpoint("GET", "a"),
        endpoint("GET", "/"),
        endpoint("GET", "/a//b"),
        endpoint("GET", "/a/"),
        endpoint("GET", "/a b"),
        endpoint("GET", "/../config"),
        endpoint("GET", "/{a}/{a}"),
        endpoint("GET", "/{1}"),
        long,
        zero,
    ] {
        let error = endpoints.add(wrong.clone()).unwrap_err();
        assert_eq!(error.kind().name(), "config", "{wrong:?}");
        assert!(!error.next_step().is_empty(), "{wrong:?}");
    }
    assert_eq!(endpoints.all().len(), 1);
}
