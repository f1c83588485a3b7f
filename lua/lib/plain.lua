-- plain: the short way of tasks of which nothing rare is known. Their records are cut and joined as strings, which
-- gives what `decode`, the transition and `encode` give, at a sixth of the cost. What is not plain is answered nil and
-- goes the long way. The layout is told in lib/codec.lua.
--
-- Lua hashes every string that it makes, byte by byte: none is made that is not needed.

local HEAD = '>BBBI4I6BI4I2I2I6I8'
local MAGIC, POLICY_AT = 193, 11
local QUEUED, RUNNING, COMPLETED = 2, 3, 5
-- The run timeout of tasks that have the defaults of lib/policy.lua.
local DEFAULT_TIMEOUT_MS = 86400000
-- Bodies and outputs up to so many bytes lie in the record itself.
local INLINE = 1024

local char, pack = string.char, struct.pack
local HEAD_BYTES, RUN_AT = 36, 37
-- Of a head: up to the due or end time, up to the token.
local CHANGED_BYTES, BEGUN_BYTES, HEAD_TO_BEGUN = 13, 28, '>BBBI4I6BI4I2I2I6'
local NOTHING_RARE = '\0\0\0'
-- No incarnation, nothing rare, no worker.
local NOBODY = '\0' .. NOTHING_RARE .. '\0'
-- From the end of `run` to `fixed`: NOBODY, and when it was enqueued.
local FIXED_BEHIND_RUN = #NOBODY + 7

-- Is `fixed` there as long as it says, with a body and no output behind it? So a record that was cut short goes the long
-- way, and one whose body lies apart, as only that knows of its key. Answers the length of its policy, too.
local function ends_with_body(raw, at)
  local high, low, _, _, _, _, _, _, _, _, policy = byte(raw, at, at + POLICY_AT - 1)
  return policy and at + 1 + high * 256 + low == #raw and at + POLICY_AT - 1 + policy < #raw and policy
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
