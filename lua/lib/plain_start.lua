-- plain_start: the record of a plain task that starts.

-- What becomes of a head when its task starts: false where the task is not plain.
local function starting(head)
  local magic, v, st, rev, _, lv, n, f, c, bg = struct.unpack(HEAD, head)
  if magic ~= MAGIC or v ~= FORMAT or st ~= QUEUED or f + c + bg > 0 or not LEVELS[lv] or LEVELS[lv] == 'again' then
    return false
  end
  local after = pack(HEAD, MAGIC, FORMAT, RUNNING, rev + 1, 0, lv, n + 1, f, c, now, 0)
  return { sub(after, 1, BEGUN_BYTES), n + 1 }
end

-- What a record says of its owner: incarnation, nothing rare, worker.
local owner
-- All bytes of a token but the last: tokens of a batch follow each other.
local tokens_of, token_head

-- A queued record as it is when its task starts, and the attempt. `prefix` and `entry` make the run.
local function plain_start(raw, prefix, entry, token)
  local after = type(raw) == 'string' and after_of(raw, HEAD_BYTES, starting)
  local length = #prefix + #entry
  local behind = RUN_AT + length
  if not after or find(raw, char(length) .. prefix .. entry .. NOBODY, RUN_AT, true) ~= RUN_AT
    or ends_with_body(raw, behind + FIXED_BEHIND_RUN) ~= 0 then
    return nil
  end
  owner = owner or char(#inc) .. inc .. NOTHING_RARE .. char(#worker) .. worker
  local last = token % 256
  if tokens_of ~= token - last then
    tokens_of, token_head = token - last, sub(pack('>I8', token), 1, 7)
  end
  return after[1] .. token_head .. char(last) .. char(length) .. prefix .. entry .. owner
    .. sub(raw, behind + #NOBODY + 1), after[2]
end
