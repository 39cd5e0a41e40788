#[test]
fn smoke() {
    use diesel::prelude::*;
    use diesel_sharded::blocking::*;
    use diesel_sharded::*;
    let dir = tempfile::tempdir().unwrap();
    let f = |n: &str| dir.path().join(n).display().to_string();
    let m = ShardedConnectionManager::<SqliteConnection>::builder()
        .shard("a", f("a"))
        .shard("b", f("b"))
        .pool(PoolConfig::new().max_size(1))
        .build()
        .unwrap();
    for s in ["a", "b"] {
        let mut c = m.get_on(s).unwrap();
        diesel::connection::SimpleConnection::batch_execute(&mut c, &format!("create table whoami(name text); insert into whoami values('{s}'); create table items(id integer primary key)")).unwrap();
    }
    diesel::table! { items (id) { id -> Integer, } }
    diesel::table! { whoami (name) { name -> Text, } }
    let who = |c: &mut ShardedConnection<SqliteConnection>| whoami::table.select(whoami::name).first::<String>(c);
    assert_eq!(m.on("b", || who(&mut m.get()?)).unwrap(), "b");
    assert!(matches!(m.get(), Err(Error::NoRoute { .. })));
    let r: Result<(), Error> = m.transaction_on("a", |c| {
        diesel::insert_into(items::table).values(items::id.eq(1)).execute(c)?;
        assert!(matches!(m.get_on("a"), Err(Error::AlreadyInTransaction { .. })));
        assert!(matches!(m.get_on("b"), Err(Error::PinnedElsewhere { .. })));
        assert!(matches!(m.independent(|| m.transaction_on("a", |_| Ok::<_, Error>(()))), Err(Error::WouldDeadlock { .. })));
        c.transaction(|c| { diesel::insert_into(items::table).values(items::id.eq(2)).execute(c)?; Err::<(), _>(diesel::result::Error::RollbackTransaction) }).ok();
        diesel::insert_into(items::table).values(items::id.eq(3)).execute(c)?;
        Ok(())
    });
    r.unwrap();
    let ids: Vec<i32> = items::table.select(items::id).load(&mut m.get_on("a").unwrap()).unwrap();
    assert_eq!(ids, [1, 3]);
    let r: Result<(), Error> = m.transaction_on("a", |c| { diesel::connection::SimpleConnection::batch_execute(c, "COMMIT")?; Ok(()) });
    println!("{}", r.unwrap_err());
    let mut c = m.get_on("a").unwrap();
    diesel::connection::SimpleConnection::batch_execute(&mut c, "BEGIN; insert into items values (9)").unwrap();
    drop(c);
    println!("{:?}", m.status());
    let n: i64 = items::table.count().get_result(&mut m.get_on("a").unwrap()).unwrap();
    assert_eq!(n, 2);
    let pool = m.clone().into_pool();
    let mut c = pool.get().unwrap();
    assert_eq!(m.on("b", || who(&mut c)).unwrap(), "b");
    println!("{:?}", m.on("a", || who(&mut c)));
    drop(c);
    m.on("a", || { let mut c = pool.get().unwrap(); assert_eq!(who(&mut c)?, "a"); Ok::<_, diesel::result::Error>(()) }).unwrap();
    fn plain(_: &mut SqliteConnection) {}
    let mut c = m.get_on("a").unwrap();
    plain(&mut c);
    let n = 1_000_000; let t = std::time::Instant::now();
    m.on("a", || { for _ in 0..n { let _ = m.get()?; } Ok::<_, Error>(()) }).err();
    drop(c);
    let t = std::time::Instant::now();
    m.on("a", || { for _ in 0..n { let _c = m.get()?; } Ok::<_, Error>(()) }).unwrap();
    println!("get+drop {:?}", t.elapsed() / n);
    let t = std::time::Instant::now();
    for _ in 0..n { m.on("a", || Ok::<_, Error>(())).unwrap(); }
    println!("on {:?}", t.elapsed() / n);
    let _ = t;
    let k = ShardedConnectionManager::<SqliteConnection>::builder().shard("a", f("a")).shard("b", f("b")).keyspace("k", KeyspaceConfig::new(RuleSpec::hash(["a","b"], 4096))).build().unwrap();
    let k = k.keyspace("k").unwrap();
    let t = std::time::Instant::now();
    for i in 0..n { std::hint::black_box(k.locate(&(i as i64)).unwrap()); }
    println!("locate {:?}", t.elapsed() / n);
}
