//! The state after an operator was killed between two requests.

use latchwork::{Address, Config, Coordinator, Kind};
use latchwork_core::backend::{CellLife, CellWrite, Expected, stamp_address};

use super::Sides;
use super::played::Played;

struct Stamp(Coordinator, Address);

impl Stamp {
    async fn of(url: &str) -> Self {
        let config = Config::from_url(url).expect("a URL").as_operator();
        let stamp = stamp_address(&config.namespace).expect("an address");
        Self(latchwork::connect(config).await.expect("a client"), stamp)
    }

    async fn text(&self) -> String {
        let cell = self.0.backend().read_cell(&self.1).await.expect("read").expect("it exists");
        String::from_utf8(cell.value.to_vec()).expect("text")
    }

    async fn write(&self, text: &str) {
        let value = Some(text.as_bytes().into());
        let write = CellWrite { expected: Expected::Any, value, life: CellLife::Stays };
        self.0.backend().write_cell(&self.1, &write).await.expect("written");
    }

    async fn delete(&self, cell: &Address) {
        let write = CellWrite { expected: Expected::Any, value: None, life: CellLife::Stays };
        self.0.backend().write_cell(cell, &write).await.expect("deleted");
    }
}

#[tokio::test]
async fn status_reports_remaining_steps_after_an_operator_was_killed() {
    let sides = Sides::of_one_redis().await;
    let member = Played::new(&sides, "a-service", true).await;
    for _ in 0..3 {
        sides.well(&["advance"]).await;
    }
    let (old, new) = (Stamp::of(&sides.from).await, Stamp::of(&sides.to).await);
    let (left, shut) = (old.text().await, new.text().await);
    let stage = Address::new("before", Kind::Layout, "move/there").expect("an address");
    old.write("layout=2").await;
    old.delete(&stage).await;
    let status = sides.well(&["status"]).await;
    assert!(status.contains("lost") && status.contains("migrate repair"), "{status}");
    assert_eq!(sides.status().await["state"], "lost");
    let (code, _, said) = sides.ran(&["run"]).await;
    assert!(code == Some(120) && said.contains("the old side has lost data"), "{said}");
    sides.well(&["repair"]).await;
    sides.well(&["abort"]).await;

    sides.well(&["run"]).await;
    member.leaves().await;
    // The marker as before, next to the record of now.
    let is_marker = |field: &&str| ["moving=", "url=", "move="].iter().any(|name| field.starts_with(name));
    let marker: Vec<_> = shut.split('&').filter(is_marker).collect();
    new.write(&format!("{}&{}", new.text().await, marker.join("&"))).await;
    let status = sides.well(&["status"]).await;
    assert!(status.contains("done") && status.contains("`latchwork migrate run` opens it"), "{status}");
    assert_eq!(sides.status().await["state"], "opening");
    let (code, plan, _) = sides.ran(&["plan"]).await;
    assert!(code == Some(120) && plan.contains("in the way: the new side is still closed"), "{plan}");
    let run = sides.well(&["run"]).await;
    assert!(run.contains("with only the new URL, and then"), "{run}");

    old.write(&left.replace("&move=there", "")).await;
    let status = sides.well(&["status"]).await;
    assert!(status.contains("finish` was begun") && status.contains("call `finish` again"), "{status}");
    assert_eq!(sides.status().await["state"], "finishing");
    let (code, plan, _) = sides.ran(&["plan"]).await;
    assert!(
        code == Some(0) && plan.contains("nothing is in the way of `latchwork migrate finish`"),
        "{plan}"
    );
    sides.well(&["finish"]).await;
    assert_eq!(sides.status().await["state"], "finished");
    assert!(sides.well(&["run"]).await.contains("finished"), "`run` accepts a finished move");
    for of in [old, new] {
        of.0.close().await.expect("a close");
    }
}
