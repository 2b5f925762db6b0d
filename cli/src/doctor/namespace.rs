use latchwork::Config;
use latchwork::operator::{Course, GateMarker};

use super::finding::Finding;

pub(super) fn of(config: &Config, marker: &GateMarker) -> Finding {
    let next = match (&marker.name, marker.course) {
        (None, _) => "give the services the URL above, or remove the marker with `Operator::reopen`",
        (Some(_), Course::Leaves) => {
            "give the services the `moving:` URL of this move; after the move, give them the URL above"
        }
        // The move retires the side whose URL is above.
        (Some(_), Course::Arrives) => {
            "give the services the `moving:` URL of this move, or wait until the move is done"
        }
    };
    Finding::fault("namespace", format!("{:?}: {marker}", config.namespace)).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_sent_to_the_new_side_and_never_to_the_old_side() {
        let advice = |course, name: Option<&str>| {
            let marker =
                GateMarker { course, name: name.map(str::to_owned), url: "redis://other".to_owned() };
            of(&Config::new("redis"), &marker).next.expect("advice")
        };
        assert!(advice(Course::Leaves, None).starts_with("give the services the URL above"));
        let leaves = advice(Course::Leaves, Some("m"));
        assert!(leaves.contains("`moving:` URL") && leaves.ends_with("give them the URL above"), "{leaves}");
        let arrives = advice(Course::Arrives, Some("m"));
        assert!(arrives.contains("`moving:` URL") && !arrives.contains("above"), "{arrives}");
    }
}
