-- alike: answers that are the same for all items are told once.

-- Puts a tag and a state for each item into a reply: only the first as long as all are the same. To be called for the
-- first item and for each that is not as `alike` says.
local alike = {}

local function tell(reply, item, tag, state)
  if item == 1 then
    alike.tag, alike.state = tag, state
  elseif alike.tag then
    for i = 2, item - 1 do
      reply[2 * i + 1], reply[2 * i + 2] = alike.tag, alike.state
    end
    alike.tag = nil
  end
  reply[2 * item + 1], reply[2 * item + 2] = tag, state
end
