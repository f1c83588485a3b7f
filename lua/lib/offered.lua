-- offered: the items of an enqueue, and what is wrong with the first that is wrong.

local function policy_is_sound(fixed)
  return long_way().policy_is_sound(fixed)
end

local function spec_fault(spec)
  return spec ~= '' and long_way().spec_fault(spec) or nil
end

local junk = form ~= 'short' and form ~= 'full' and 'form' or nil
local levels, keys = {}, {}
for at = FIRST, #args, FIELDS do
  local id, level = args[at], args[at + 1]
  junk = junk or fault_of(id, level, args[at + 2], FIELDS == 5 and args[at + 3] or '', policy_is_sound)
    or (FIELDS == 5 and spec_fault(args[at + 4] or '')) or nil
  levels[level or ''] = true
  keys[#keys + 1] = TASK .. id
end
