//! Which keys a system can take.

use super::super::super::rule::Problems;
use super::super::{JavaType, System};
use crate::key::KeyType;

/// Whether a system can take keys of this type.
pub(super) fn check_key(system: &System, key: KeyType, problems: &mut Problems) {
    let takes: &[KeyType] = match system {
        System::ShardingSphereMod { .. }
        | System::ShardingSphereInline { .. }
        | System::ShardingSphereCosidMod { .. }
        | System::ShardingSphereVolumeRange { .. }
        | System::ShardingSphereBoundaryRange { .. }
        | System::BitMixSplit { .. }
        | System::PgcatSha1 { .. }
        | System::VitessHash { .. }
        | System::SpqrMurmur { .. }
        | System::GuavaConsistentHash { .. } => &[KeyType::Integer],
        System::ShardingSphereHashMod { java, .. } => match java {
            JavaType::Integer | JavaType::Long | JavaType::BigInteger => &[KeyType::Integer],
            JavaType::Uuid => &[KeyType::Uuid],
            JavaType::String | JavaType::BigDecimal | JavaType::Double | JavaType::Boolean => {
                &[KeyType::Text]
            }
        },
        System::ShardingSphereAutoInterval { .. } | System::ShardingSphereInterval { .. } => {
            &[KeyType::Timestamp]
        }
        System::JavaPerturbed { .. } => &[KeyType::Text],
        System::PostgresHash { .. } => &[
            KeyType::Integer,
            KeyType::Text,
            KeyType::Uuid,
            KeyType::Bytes,
            KeyType::Date,
            KeyType::Timestamp,
        ],
        System::CitusHash { .. } | System::CitusMap { .. } => {
            &[KeyType::Integer, KeyType::Text, KeyType::Uuid]
        }
        System::VitessXxhash { .. } => &[KeyType::Text, KeyType::Bytes],
    };
    if !takes.contains(&key) {
        let takes: Vec<&str> = takes.iter().map(|key| key.as_str()).collect();
        problems.add(
            "algorithm.like",
            format!(
                "`{}` takes keys of the type {}, and the keys of this keyspace are {key}",
                system.as_str(),
                takes.join(" or "),
            ),
        );
    }
}
