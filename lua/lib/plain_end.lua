-- plain_end: the record of a plain task that runs, and that is completed.

-- What becomes of a head up to its token when its run is completed: false where it does not run.
local function ending(head)
  local magic, v, st, rev, _, lv, n, _, _, bg = struct.unpack(HEAD_TO_BEGUN, head)
  if magic ~= MAGIC or v ~= FORMAT or st ~= RUNNING or n * bg == 0 or not LEVELS[lv] or LEVELS[lv] == 'again' then
    return false
  end
  return { pack('>BBBI4I6', MAGIC, FORMAT, COMPLETED, rev + 1, now), n, bg }
end

-- A running record as it is when its run is completed, the attempt, and when it began.
local function plain_end(raw, run, output)
  if type(raw) ~= 'string' or #output > INLINE or #run > 255 or #inc > 255 then
    return nil
  end
  local after = after_of(raw, BEGUN_BYTES, ending)
  if not after or find(raw, char(#run) .. run .. char(#inc) .. inc .. NOTHING_RARE, RUN_AT, true) ~= RUN_AT then
    return nil
  end
  local worker_at = RUN_AT + #run + #inc + 5
  if not ends_with_body(raw, worker_at + 7 + (byte(raw, worker_at) or 0)) then
    return nil
  end
  return after[1] .. sub(raw, CHANGED_BYTES + 1) .. output, after[2], after[3]
end
-- When a run began, by a head: false where it does not run.
local function running(head)
  local after = ending(head)
  return after and after[3]
end

-- When the run began that owns the task of this record, if nothing rare is known of it and its default run timeout is not
-- over.
local function plain_alive(raw, run)
  local began = type(raw) == 'string' and #run <= 255 and #inc <= 255 and after_of(raw, BEGUN_BYTES, running)
  if not began or now >= began + DEFAULT_TIMEOUT_MS
    or find(raw, char(#run) .. run .. char(#inc) .. inc .. NOTHING_RARE, RUN_AT, true) ~= RUN_AT then
    return false
  end
  local worker_at = RUN_AT + #run + #inc + 5
  return ends_with_body(raw, worker_at + 7 + (byte(raw, worker_at) or 0)) == 0 and began
end
