-- fixed: what never changes of a task, as clients send it and records keep it: its length in 2 bytes, digest, policy
-- and body.

local function digest_of(fixed)
  return sub(fixed, 3, POLICY_AT - 1)
end

-- Where the body begins in `fixed`, behind digest and policy.
local function body_begins(fixed)
  return POLICY_AT + 1 + byte(fixed, POLICY_AT)
end

local function has_policy(fixed)
  return byte(fixed, POLICY_AT) ~= 0
end

-- Is `fixed` what a client may send, but for its policy: its length, a digest and a body?
local function sound_fixed(fixed)
  local high, low = byte(fixed, 1, 2)
  return #fixed > POLICY_AT and body_begins(fixed) <= #fixed
    and (high * 256 + low == #fixed - 2 or #fixed - 2 > 65535)
end
