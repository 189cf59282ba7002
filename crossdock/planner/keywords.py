"""Keywords of DuckDB 2.0.1 (``duckdb_keywords()``)."""

from __future__ import annotations

_GRAMMAR_WORDS = """
    all analyse analyze and anti any array as asc asof asymmetric at authorization between
    bigint binary bit boolean both by case cast char character check coalesce collate
    collation column columns concurrently constraint create cross dec decimal default
    deferrable desc describe distinct do else end except exists extract false fetch float for
    foreign freeze from full generated glob group grouping grouping_id having ilike in
    initially inner inout int integer intersect interval into is isnull join lambda lateral
    leading left like limit map national natural nchar none not notnull null nullif numeric
    offset on only or order out outer overlaps overlay pivot pivot_longer pivot_wider placing
    position positional precision primary qualify real references returning right row select
    semi setof show similar smallint some struct substring summarize symmetric table
    tablesample then time timestamp to trailing treat trim true try_cast tuple union unique
    unpack unpivot using values varchar variadic verbose when where window with xmlattributes
    xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
    xmltable
"""

_OTHER_WORDS = """
    abort absolute access action add admin after aggregate also alter always approx assertion
    assignment attach attribute backward before begin cache call called cascade cascaded
    catalog centuries century chain characteristics checkpoint class close cluster comment
    comments commit committed compression configuration conflict connect connection
    constraints content continue conversion copy cost csv cube current cursor cycle data
    database day days deallocate decade decades declare defaults deferred definer delete
    delimiter delimiters depends destroy detach dictionary disable discard disconnect distance
    document domain double drop each enable encoding encrypted enum error escape event exact
    exclude excluding exclusive execute explain export export_state extension extensions
    external family filter first following force forward function functions global grant
    granted groups handler header hold hour hours identity if ignore immediate immutable
    implicit import include including increment index indexes inherit inherits inline input
    insensitive insert install instead invoker isolation json key label language large last
    leakproof level listen load local location lock locked logged macro mapping match matched
    materialized maxvalue merge method microsecond microseconds millennia millennium
    millisecond milliseconds minute minutes minvalue mode month months move name names nearest
    new next no nothing notify nowait nulls object of off oids old operator option options
    ordinality others over overriding owned owner parallel parser partial partition
    partitioned passing password percent persistent plans policy pragma preceding prepare
    prepared preserve prior privileges procedural procedure program publication quarter
    quarters quote range read reassign recheck recursive ref referencing refresh register
    reindex relative release rename repeatable replace replica reset resource resources
    respect restart restrict returns revoke role rollback rollup rows rule sample savepoint
    schema schemas scope scroll search second seconds secret secure security sequence
    sequences serializable server session set sets share similarity simple skip snapshot
    sorted source sql stable standalone start statement statistics stdin stdout storage stored
    strict strip subscription sysid system tables tablespace target temp template temporary
    text ties transaction transform trigger truncate trusted type types unbounded uncommitted
    unencrypted unknown unlisten unlogged until update use user vacuum valid validate
    validator value variable varying version view views virtual volatile week weeks whitespace
    within without work wrapper write xml year years yes zone
"""

#: Words the grammar uses itself: a function of such a name is called quoted.
GRAMMAR_WORDS = frozenset(_GRAMMAR_WORDS.split())

#: Every keyword: the engine quotes a field of such a name in type texts.
KEYWORDS = GRAMMAR_WORDS | frozenset(_OTHER_WORDS.split())
