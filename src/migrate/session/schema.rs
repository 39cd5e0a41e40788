//! What a database really looks like, in lines that can be compared.

use diesel::prelude::*;
use diesel::sql_types::Text;

use super::{Session, tables};
use crate::topology::UrlKind;

/// Each query answers lines; what they say is stable from server to server of one version. The
/// names of generated objects are left out where they are only names.
const POSTGRES: [&str; 7] = [
    "SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'm' THEN 'materialized view ' WHEN 'S' THEN 'sequence ' WHEN 'f' THEN 'foreign table ' ELSE 'table ' END
        || c.oid::regclass::text || CASE WHEN c.relkind IN ('v', 'm') THEN ': ' || pg_get_viewdef(c.oid)
           WHEN c.relkind = 'S' THEN coalesce((SELECT ' of ' || o.attrelid::regclass::text || '.' || quote_ident(o.attname)
             FROM pg_depend d JOIN pg_attribute o ON o.attrelid = d.refobjid AND o.attnum = d.refobjsubid
             WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')), '')
           ELSE '' END
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND {schema} AND c.relname NOT IN ({kept})",
    "SELECT 'column ' || c.oid::regclass::text || '.' || quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
        || CASE a.attidentity WHEN 'a' THEN ' identity always' WHEN 'd' THEN ' identity' ELSE '' END
        || CASE WHEN d.oid IS NULL THEN '' WHEN a.attgenerated = 's' THEN ' generated ' || pg_get_expr(d.adbin, d.adrelid)
           ELSE ' default ' || pg_get_expr(d.adbin, d.adrelid) END
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {schema} AND c.relname NOT IN ({kept})",
    "SELECT 'constraint ' || k.conrelid::regclass::text || '.' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid)
     FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE {schema} AND c.relname NOT IN ({kept})",
    "SELECT pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END
     FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE {schema} AND c.relname NOT IN ({kept})",
    "SELECT pg_get_triggerdef(t.oid) || CASE t.tgenabled WHEN 'D' THEN ' (disabled)' ELSE '' END
     FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE NOT t.tgisinternal AND {schema}",
    "SELECT 'function ' || p.oid::regprocedure::text || ' ' || md5(pg_get_functiondef(p.oid))
     FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE p.prokind IN ('f', 'p') AND {schema} AND NOT EXISTS (SELECT 1 FROM pg_depend x WHERE x.objid = p.oid AND x.deptype = 'e')",
    "SELECT 'type ' || t.oid::regtype::text || CASE t.typtype
        WHEN 'e' THEN ' enum (' || coalesce((SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid), '') || ')'
        ELSE ' domain ' || format_type(t.typbasetype, t.typtypmod) END
     FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype IN ('e', 'd') AND {schema}",
];

/// Columns of the view that has checks: MariaDB's says of which table each is, where a name is one of its table
/// alone; MySQL's says it not, and there names are unique. Before MySQL 8 there is none.
const MYSQL_CHECK_COLUMNS: &str =
    "SELECT CAST(LOWER(column_name) AS CHAR) FROM information_schema.columns
     WHERE table_schema = 'information_schema' AND LOWER(table_name) = 'check_constraints'";

const MARIADB_CHECKS: &str = "SELECT CONCAT('constraint ', table_name, '.', constraint_name, ' CHECK (', check_clause, ')')
     FROM information_schema.check_constraints WHERE constraint_schema = DATABASE() AND table_name NOT IN ({kept})";

const MYSQL_CHECKS: &str = "SELECT CONCAT('constraint ', t.table_name, '.', t.constraint_name, ' CHECK (', k.check_clause, ')', IF(t.enforced = 'NO', ' not enforced', ''))
     FROM information_schema.check_constraints k JOIN information_schema.table_constraints t
       ON t.constraint_schema = k.constraint_schema AND t.constraint_name = k.constraint_name AND t.constraint_type = 'CHECK'
     WHERE k.constraint_schema = DATABASE() AND t.table_name NOT IN ({kept})";

const MYSQL: [&str; 7] = [
    "SELECT CONCAT('table ', table_name, ' ', COALESCE(engine, 'view'), ' ', COALESCE(table_collation, ''))
     FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name NOT IN ({kept})",
    "SELECT CONCAT('column ', table_name, '.', column_name, ' ', column_type, IF(is_nullable = 'NO', ' not null', ''),
        IF(column_default IS NULL, '', CONCAT(' default ', column_default)), IF(extra = '', '', CONCAT(' ', extra)),
        IF(collation_name IS NULL, '', CONCAT(' ', collation_name)))
     FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name NOT IN ({kept})",
    "SELECT CONCAT(IF(MAX(non_unique), 'index ', 'unique index '), table_name, '.', index_name, ' ', MAX(index_type), ' (',
        GROUP_CONCAT(CONCAT(COALESCE(column_name, 'an expression'), IF(sub_part IS NULL, '', CONCAT('(', sub_part, ')'))) ORDER BY seq_in_index SEPARATOR ', '), ')')
     FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name NOT IN ({kept})
     GROUP BY table_name, index_name",
    "SELECT CONCAT('foreign key ', k.table_name, '.', k.constraint_name, ' (', GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position SEPARATOR ', '),
        ') references ', MAX(k.referenced_table_name), ' (', GROUP_CONCAT(k.referenced_column_name ORDER BY k.ordinal_position SEPARATOR ', '),
        ') on update ', MAX(r.update_rule), ' on delete ', MAX(r.delete_rule))
     FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
       ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name
     WHERE k.table_schema = DATABASE() AND k.referenced_table_name IS NOT NULL GROUP BY k.table_name, k.constraint_name",
    "SELECT CONCAT('trigger ', trigger_name, ' ', action_timing, ' ', event_manipulation, ' on ', event_object_table, ' ', MD5(action_statement))
     FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
    "SELECT CONCAT(LOWER(routine_type), ' ', routine_name, ' ', COALESCE(dtd_identifier, ''), ' ', MD5(COALESCE(routine_definition, '')))
     FROM information_schema.routines WHERE routine_schema = DATABASE()",
    "SELECT CONCAT('view ', table_name, ': ', REPLACE(view_definition, CONCAT('`', DATABASE(), '`.'), ''))
     FROM information_schema.views WHERE table_schema = DATABASE()",
];

/// What `CREATE` said, with every run of blanks as one; and columns, since `ALTER TABLE` writes its
/// text into the table's as it likes.
const SQLITE: [&str; 3] = [
    "SELECT type || ' ' || name || ': ' || coalesce(sql, '') FROM sqlite_master
     WHERE type <> 'table' AND name NOT LIKE 'sqlite_%' AND tbl_name NOT IN ({kept})",
    "SELECT 'column ' || m.name || '.' || p.name || ' ' || p.type || CASE WHEN p.\"notnull\" THEN ' not null' ELSE '' END
        || CASE WHEN p.dflt_value IS NULL THEN '' ELSE ' default ' || p.dflt_value END
        || CASE WHEN p.pk THEN ' primary key ' || p.pk ELSE '' END
     FROM sqlite_master m, pragma_table_xinfo(m.name) p
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT IN ({kept})",
    "SELECT 'table ' || name || ': ' || sql FROM sqlite_master
     WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT IN ({kept})",
];

impl Session {
    /// The schema as sorted lines, without the tables of this crate and Diesel's.
    pub(in crate::migrate) fn schema(&mut self) -> QueryResult<Vec<String>> {
        let queries: &[&str] = match self.kind {
            UrlKind::Sqlite => &SQLITE,
            UrlKind::Postgres => &POSTGRES,
            UrlKind::Mysql => &MYSQL,
        };
        let kept: Vec<String> = tables::KEPT
            .iter()
            .map(|name| format!("'{name}'"))
            .collect();
        let kept = kept.join(", ");
        let mut lines = Vec::new();
        for query in queries.iter().copied().chain(self.checks_of_mysql()?) {
            let query = query.replace("{kept}", &kept).replace(
                "{schema}",
                "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'",
            );
            let found: Vec<String> = diesel::dsl::sql::<Text>(&query).load(&mut self.conn)?;
            lines.extend(found.iter().map(|line| one_line(line)));
        }
        lines.sort();
        Ok(lines)
    }
}

impl Session {
    /// The query for checks, where the server has it.
    fn checks_of_mysql(&mut self) -> QueryResult<Option<&'static str>> {
        if self.kind != UrlKind::Mysql {
            return Ok(None);
        }
        let columns: Vec<String> =
            diesel::dsl::sql::<Text>(MYSQL_CHECK_COLUMNS).load(&mut self.conn)?;
        let of_table = columns.iter().any(|column| column == "table_name");
        Ok((!columns.is_empty()).then_some(if of_table {
            MARIADB_CHECKS
        } else {
            MYSQL_CHECKS
        }))
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
