//! A route is checked before it can be given to a future.
use diesel_sharded::{FutureExt, Topology};

fn check(topology: Topology) {
    let _ = async {}.with_route("a");
    let _ = async {}.with_route(topology.route("a"));
}

fn main() {}
