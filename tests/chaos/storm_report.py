# SPDX-License-Identifier: Apache-2.0
"""What a storm found, as one dictionary, and that as text."""

import bisect

import storm_checks


def percentile(numbers, share):
    ordered = sorted(numbers)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def spread(numbers):
    """Seconds to milliseconds."""
    return {"count": len(numbers), "p50_ms": round(percentile(numbers, 0.5) * 1000, 1),
            "p99_ms": round(percentile(numbers, 0.99) * 1000, 1),
            "longest_ms": round(max(numbers, default=0.0) * 1000, 1)}


def recoveries_of(events, losses):
    """One row for each time that a shard changed hands: from the loss of its owner (what the storm
    did, or else the claim) to being served again, in parts."""
    rows, owner_of = [], {}
    claims, parts = {}, {}
    for at, name, row in sorted(events, key=lambda event: event[0]):
        message = row.get("msg")
        if message == "index claimed":
            claims[name] = (at, row["index"], row["epoch"])
            parts[name] = {}
        elif message in ("checkpoint loaded", "journal replayed") and name in parts:
            parts[name][message] = row
        elif message == "serving" and name in claims:
            claimed, shard, epoch = claims.pop(name)
            before = owner_of.get(shard)
            owner_of[shard] = (name, at)
            if before is not None:
                lost = last_loss(losses, before, claimed)
                rows.append(recovery_row(shard, epoch, name, lost, claimed, at,
                                         parts.get(name, {})))
    return rows


def last_loss(losses, before, claimed):
    """When the storm took the shard from its owner: the last thing that it did to that server."""
    name, since = before
    times = [at for at, victims in losses if since <= at <= claimed and name in victims]
    return max(times, default=claimed)


def recovery_row(shard, epoch, name, lost, claimed, served, parts):
    """What the server says of its own recovery; the rest is claiming and publishing."""
    loaded = parts.get("checkpoint loaded", {})
    replayed = parts.get("journal replayed", {})
    return {"shard": shard, "epoch": epoch, "server": name, "from": lost, "until": served,
            "detect_s": claimed - lost, "load_s": loaded.get("duration_ms", 0) / 1000,
            "replay_s": replayed.get("duration_ms", 0) / 1000,
            "serve_s": served - claimed, "records": replayed.get("records", 0)}


def failover_latencies(pushes, recoveries, shard_of_parameter):
    """Seconds that pushes took which were under way while their shard had no server: from the last
    acknowledgement of the old owner until the new one serves."""
    acks = {}
    for push in pushes:
        if push.version:
            acks.setdefault(shard_of_parameter[push.parameter], []).append(push)
    found = []
    for shard, rows in acks.items():
        rows.sort(key=lambda push: push.ended)
        ends = [push.ended / 1e9 for push in rows]
        windows = []
        for row in recoveries:
            last = bisect.bisect_left(ends, row["until"])
            if row["shard"] == shard and last > 0:
                windows.append((ends[last - 1], row["until"]))
        found += [(push.ended - push.began) / 1e9 for push in rows
                  if any(push.began / 1e9 < until and push.ended / 1e9 > since
                         for since, until in windows)]
    return found


def longest_gaps(pushes, shard_of_parameter):
    """The longest time without an acknowledgement, per shard."""
    gaps, last = {}, {}
    for push in sorted((one for one in pushes if one.version), key=lambda one: one.ended):
        shard = shard_of_parameter[push.parameter]
        if shard in last:
            gaps[shard] = max(gaps.get(shard, 0), (push.ended - last[shard]) / 1e9)
        last[shard] = push.ended
    return {str(shard): round(gap, 3) for shard, gap in sorted(gaps.items())}


def text_of(result):
    lines = [f"storm: seed {result['seed']}, {result['seconds']:.0f} s, {result['shards']} shards, "
             f"{result['trainers']} trainers; again: {result['again']}"]
    for lack in result["skipped"]:
        lines.append(f"  skipped: {lack}")
    lines.append(f"  servers: {' '.join(result['server_flags']) or 'acknowledge from memory'}")
    lines.append(f"  pushes: {result['acknowledged']} acknowledged, {result['repeats']} of them "
                 f"known by the server as repeats; {result['in_doubt']} in doubt, "
                 f"{result['failed']} told to have failed; {result['reads']} reads")
    lines += change_lines(result["changes"]) + row_lines(result["rows"])
    lines.append("  faults: " + ", ".join(f"{kind} {number}" for kind, number in
                                          sorted(result["faults"].items())))
    lines.append(f"  kills: {result['kills']} (at least {result['kills_min']} wanted)")
    lines.append("  every push: " + spread_text(result["latency"]))
    lines.append("  pushes during failover: " + spread_text(result["failover"]))
    lines.append("  longest time without an acknowledgement: " + ", ".join(
        f"shard {shard} {gap:.2f} s" for shard, gap in result["gaps_s"].items()))
    rows = result["recoveries"]
    if rows:
        lines.append(f"  recoveries: {len(rows)}; median detect {median(rows, 'detect_s')} + load "
                     f"{median(rows, 'load_s')} + replay {median(rows, 'replay_s')}; from claim to "
                     f"serving {median(rows, 'serve_s')}; {sum(row['records'] for row in rows)} "
                     f"records replayed; longest outage "
                     f"{max(row['until'] - row['from'] for row in rows):.2f} s")
    lines.append(f"  healed: all parameters moved on after {result['healed_s']:.2f} s, drained "
                 f"after {result['drained_s']:.2f} s")
    lines.append(f"  journal: {result['journal']}")
    lines.append(f"  digest: {result['digest']}")
    lines.append(f"  lost {result['lost']}, duplicates {result['duplicates']}")
    lines += violation_lines(result["violations"])
    lines.append(f"  report: {result['report']}" + (
        f"; all that was written: {result['folder']}" if result["folder"] else ""))
    lines.append("storm: " + ("every promise held" if not result["violations"]
                              else "PROMISES BROKEN"))
    return "\n".join(lines)


def change_lines(table):
    if not sum(table.values()):
        return []
    return [f"  changes: {table['define']} definitions, {table['set']} configurations, "
            f"{table['drop']} drops with {table['push']} pushes and {table['pull']} reads between "
            f"them; {table['repeats']} known by the server as repeats, {table['in_doubt']} in "
            f"doubt ({table['in_doubt_done']} were done), {table['failed']} told to have failed"]


def row_lines(table):
    if not table["tables"]:
        return []
    return [f"  tables: {table['steps']} calls that add rows to {table['tables']} tables; "
            f"{table['in_doubt']} in doubt, {table['failed']} told to have failed"]


def spread_text(one):
    return (f"{one['count']}, p50 {one['p50_ms']} ms, p99 {one['p99_ms']} ms, longest "
            f"{one['longest_ms']} ms")


def median(rows, key):
    return f"{percentile([row[key] for row in rows], 0.5) * 1000:.0f} ms"


def violation_lines(violations):
    table = storm_checks.counts(violations)
    lines = [f"  BROKEN {rule}: {number}" for rule, number in sorted(table.items())]
    shown = {}
    for one in violations:
        shown[one.rule] = shown.get(one.rule, 0) + 1
        if shown[one.rule] <= 3:
            lines.append(f"    {one.rule}: {one.text}")
    return lines
