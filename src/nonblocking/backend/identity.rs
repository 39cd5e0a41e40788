//! Reading and writing `diesel_sharded_identity` on each backend.

/// Gives a connection type the two functions, in ordinary Diesel over its concrete type.
macro_rules! identity_functions {
    ($conn:ty, $internal:literal, $exists:expr) => {
        use diesel::prelude::{BoolExpressionMethods as _, ExpressionMethods as _, QueryDsl as _};
        use diesel::{QueryResult, result::Error as DieselError};
        use diesel_async::{AsyncConnection as _, RunQueryDsl as _, SimpleAsyncConnection as _};

        use crate::driver::IdentityRow;

        diesel::table! {
            diesel_sharded_identity (shard, keyspace) {
                shard -> Text,
                keyspace -> Text,
                fingerprint -> Text,
                epoch -> BigInt,
            }
        }

        const CREATE: &str = include_str!(concat!(
            "../../../migrations/internal/",
            $internal,
            "/00000000000001_identity/up.sql"
        ));

        pub(in crate::nonblocking::backend) async fn read(
            conn: &mut $conn,
        ) -> QueryResult<Vec<IdentityRow>> {
            use diesel_sharded_identity::dsl;

            // Asked instead of tried: a failing SELECT would fill the server's log.
            let there: bool = diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>($exists))
                .get_result(conn)
                .await?;
            if !there {
                return Ok(Vec::new());
            }
            let rows: Vec<(String, String, String, i64)> = dsl::diesel_sharded_identity
                .order((dsl::shard, dsl::keyspace))
                .load(conn)
                .await?;
            Ok(rows
                .into_iter()
                .map(|(shard, keyspace, fingerprint, epoch)| IdentityRow {
                    shard,
                    keyspace,
                    fingerprint,
                    epoch,
                })
                .collect())
        }

        pub(in crate::nonblocking::backend) async fn write(
            conn: &mut $conn,
            rows: &[IdentityRow],
        ) -> QueryResult<()> {
            use diesel_sharded_identity::dsl;

            conn.batch_execute(CREATE).await?;
            conn.transaction(async |conn| {
                for row in rows {
                    let old = dsl::shard
                        .eq(&row.shard)
                        .and(dsl::keyspace.eq(&row.keyspace));
                    diesel::delete(dsl::diesel_sharded_identity.filter(old))
                        .execute(conn)
                        .await?;
                    diesel::insert_into(dsl::diesel_sharded_identity)
                        .values((
                            dsl::shard.eq(&row.shard),
                            dsl::keyspace.eq(&row.keyspace),
                            dsl::fingerprint.eq(&row.fingerprint),
                            dsl::epoch.eq(row.epoch),
                        ))
                        .execute(conn)
                        .await?;
                }
                Ok::<_, DieselError>(())
            })
            .await
        }
    };
}

#[cfg(feature = "async-sqlite")]
pub(super) mod sqlite {
    use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

    identity_functions!(
        SyncConnectionWrapper<diesel::SqliteConnection>,
        "sqlite",
        "EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'diesel_sharded_identity')"
    );
}

#[cfg(feature = "async-postgres")]
pub(super) mod postgres {
    identity_functions!(
        diesel_async::AsyncPgConnection,
        "postgres",
        "to_regclass('diesel_sharded_identity') IS NOT NULL"
    );
}

#[cfg(feature = "async-mysql")]
pub(super) mod mysql {
    identity_functions!(
        diesel_async::AsyncMysqlConnection,
        "mysql",
        "EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'diesel_sharded_identity')"
    );
}
