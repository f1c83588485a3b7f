-- plain: the short way of tasks of which nothing rare is known. Their records are cut and joined as strings, which
-- gives what `decode`, the transition and `encode` give, at a sixth of the cost. What is not plain is answered nil and
-- goes the long way. The layout is told in lib/codec.lua.
--
-- Lua hashes every string that it makes, byte by byte: none is made that is not needed.

local HEAD = '>BBBI4I6BI4I2I2I6I8'
local MAGIC, POLICY_AT = 193, 11
local QUEUED, RUNNING, COMPLETED = 2, 3, 5
-- Bodies and outputs up to so many bytes lie in the record itself.
local INLINE = 1024

-- A byte as a string of one.
local BYTE = setmetatable({}, { __index = function(bytes, n)
  bytes[n] = string.char(n)
  return bytes[n]
end })

local plain_new, plain_start, plain_end

do
local pack = struct.pack
local HEAD_BYTES, RUN_AT = 36, 37
-- Of a head: up to the due or end time, up to the token.
local CHANGED_BYTES, BEGUN_BYTES, HEAD_TO_BEGUN = 13, 28, '>BBBI4I6BI4I2I2I6'
-- More than `fixed` can hold without a body: digest, policy and its length.
local LONGEST_POLICY = POLICY_AT - 2 + 255
local NOTHING_RARE = '\0\0\0'
-- No incarnation, nothing rare, no worker.
local NOBODY = '\0' .. NOTHING_RARE .. '\0'
-- From the end of `run`: NOBODY, when it was enqueued, and in `fixed` its length and the digest.
local POLICY_BEHIND_RUN = #NOBODY + 6 + POLICY_AT

-- The record of a task that is accepted under an entry now. `heads` is kept by the caller.
function plain_new(heads, level, entry, fixed)
  local head = heads[level]
  if not head then
    head = { pack(HEAD, MAGIC, FORMAT, QUEUED, 1, 0, LEVEL_CODE[level], 0, 0, 0, 0, 0), level .. ':', NOBODY .. pack('>I6', now) }
    heads[level] = head
  end
  return head[1] .. BYTE[#head[2] + #entry] .. head[2] .. entry .. head[3] .. fixed
end

-- Is `fixed` there as long as it says, with a body and no output behind it? So a record that was cut short goes the long
-- way, and one whose body lies apart, as only that knows of its key.
local function ends_with_body(raw, at)
  local high, low = byte(raw, at, at + 1)
  local length = low and high * 256 + low or 0
  local policy_at = at + POLICY_AT - 1
  return at + 1 + length == #raw and (length > LONGEST_POLICY or policy_at + (byte(raw, policy_at) or 0) < #raw)
end

-- What becomes of a head when its task starts: false where the task is not plain.
local function starting(head)
  local magic, v, st, rev, _, lv, n, f, c, bg = struct.unpack(HEAD, head)
  if magic ~= MAGIC or v ~= FORMAT or st ~= QUEUED or f + c + bg > 0 or not LEVELS[lv] or LEVELS[lv] == 'again' then
    return false
  end
  local after = pack(HEAD, MAGIC, FORMAT, RUNNING, rev + 1, 0, lv, n + 1, f, c, now, 0)
  return { sub(after, 1, BEGUN_BYTES), n + 1 }
end

-- The head met last and what becomes of it: in a batch most are alike.
local last_head, last_after = '\0', false

local function after_of(raw, bytes, change)
  if #raw < bytes then
    return false
  elseif find(raw, last_head, 1, true) ~= 1 then
    last_head = sub(raw, 1, bytes)
    last_after = change(last_head)
  end
  return last_after
end

-- What a record says of its owner: incarnation, nothing rare, worker.
local owner

-- A queued record as it is when its task starts, and the attempt. `prefix` and `entry` make the run.
function plain_start(raw, prefix, entry, token)
  local after = after_of(raw, HEAD_BYTES, starting)
  local length = #prefix + #entry
  local behind = HEAD_BYTES + 1 + length
  if not after or find(raw, BYTE[length] .. prefix .. entry .. NOBODY, RUN_AT, true) ~= RUN_AT
    or byte(raw, behind + POLICY_BEHIND_RUN) ~= 0 or not ends_with_body(raw, behind + #NOBODY + 7) then
    return nil
  end
  owner = owner or BYTE[#inc] .. inc .. NOTHING_RARE .. BYTE[#worker] .. worker
  return after[1] .. pack('>I8', token) .. BYTE[length] .. prefix .. entry .. owner .. sub(raw, behind + #NOBODY + 1), after[2]
end

-- What becomes of a head up to its token when its run is completed: false where it does not run.
local function ending(head)
  local magic, v, st, rev, _, lv, n, _, _, bg = struct.unpack(HEAD_TO_BEGUN, head)
  if magic ~= MAGIC or v ~= FORMAT or st ~= RUNNING or n * bg == 0 or not LEVELS[lv] or LEVELS[lv] == 'again' then
    return false
  end
  return { pack('>BBBI4I6', MAGIC, FORMAT, COMPLETED, rev + 1, now), n }
end

-- A running record as it is when its run is completed, and the attempt.
function plain_end(raw, run, output)
  if #output > INLINE or #run > 255 or #inc > 255 then
    return nil
  end
  local after = after_of(raw, BEGUN_BYTES, ending)
  if not after or find(raw, BYTE[#run] .. run .. BYTE[#inc] .. inc .. NOTHING_RARE, RUN_AT, true) ~= RUN_AT then
    return nil
  end
  local worker_at = RUN_AT + #run + #inc + 5
  if not ends_with_body(raw, worker_at + 7 + (byte(raw, worker_at) or 0)) then
    return nil
  end
  return after[1] .. sub(raw, CHANGED_BYTES + 1) .. output, after[2]
end
end
