-- policy: how often, how long, how soon again. The record keeps it only where it differs from the defaults.

local policy_in

do
-- max_attempts, backoff base ms, backoff cap ms, backoff factor, max_reclaims, requeue (1) or fail (0) on a
-- lost lease, run timeout ms (0 = none), stop grace ms. The same order as `Policy` in common/src/policy.rs.
local DEFAULT_POLICY = { 5, 1000, 300000, 2, 3, 1, 86400000, 30000 }
local policies = {}

-- Unpacks a policy: false when it cannot be read.
local function read_policy(packed)
  local ok, p = pcall(cmsgpack.unpack, packed)
  if not ok or type(p) ~= 'table' then
    return false
  end
  for i = 1, #DEFAULT_POLICY do
    if type(p[i]) ~= 'number' or p[i] ~= p[i] or p[i] < 0 or p[i] > 9e15 then
      return false
    end
  end
  return p[1] >= 1 and p
end

-- The policy in what never changes of a task: behind its digest a length and so many bytes, 0 for the defaults.
function policy_in(fixed)
  local length = string.byte(fixed, POLICY_AT)
  if length == 0 then
    return DEFAULT_POLICY
  end
  local packed = string.sub(fixed, POLICY_AT + 1, POLICY_AT + (length or 0))
  if policies[packed] == nil then
    policies[packed] = read_policy(packed)
  end
  return policies[packed]
end
end

local function policy_of(rec)
  return policy_in(rec.fixed)
end

-- Exponential, capped, saturating, with full jitter. Redis seeds math.random alike for every script
-- call, so it is seeded from the microsecond and the id.
local function backoff(id, rec)
  local p = policy_of(rec)
  if p[2] == 0 then
    return 0
  end
  local ceiling = math.min(p[3], MOST_MS, p[2] * math.pow(math.max(p[4], 1), math.min(rec.f - 1, 1000)))
  local seed = micros + rec.f
  for i = 1, #id do
    seed = (seed * 31 + string.byte(id, i)) % 2147483647
  end
  math.randomseed(seed)
  return math.floor(math.random() * ceiling + 0.5)
end
