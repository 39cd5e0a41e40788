//! Handles of an outer pool belong to the shard of their checkout, also when it could not be had.

use std::time::Duration;

use diesel_sharded::{Error, PoolConfig};

use super::backend::{self, Fleet, whoami};
use crate::support::ours;

backend::blocking_only! {
    #[test]
    fn a_handle_whose_binding_failed_never_ends_up_on_another_shard() {
        let fleet = Fleet::new(&["a", "b", "c"]);
        let impatient = PoolConfig::new()
            .max_size(1)
            .connection_timeout(Duration::from_millis(500));
        let builder = fleet.builder_with(impatient, |_, url| url);
        let shards = builder.default_shard("c").build().unwrap();
        let pool = shards.clone().into_pool();

        let held = shards.get_on("a").unwrap();
        let mut conn = shards
            .on("a", || Ok::<_, Error>(pool.get().unwrap()))
            .unwrap();
        // The failure of the checkout, then those of new attempts: at a, whatever the stack says.
        for _ in 0..3 {
            let error = whoami(&mut conn).unwrap_err();
            assert!(
                matches!(ours(&error), Error::PoolExhausted { shard, .. } if *shard == "a"),
                "{error:?}"
            );
        }
        drop(held);
        assert_eq!(whoami(&mut conn).unwrap(), "a");
        let elsewhere = shards.on("b", || Ok::<_, Error>(whoami(&mut conn)));
        let error = elsewhere.unwrap().unwrap_err();
        assert!(
            matches!(ours(&error), Error::RouteMismatch { .. }),
            "{error:?}"
        );
        drop(conn);

        // Given back, it belongs nowhere again.
        let mut conn = pool.get().unwrap();
        assert_eq!(whoami(&mut conn).unwrap(), "c");
    }
}

#[test]
fn a_change_inside_a_change_is_refused_instead_of_waiting_for_itself() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let inner = shards.clone();
    let change = shards.reload_with(move |topology| {
        let refused = inner.reload_with(|topology| topology).map(|_| ());
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
        topology
    });
    assert!(change.is_ok(), "{change:?}");
}
