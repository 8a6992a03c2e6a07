-- One animal, over and over.
local requests = require("requests")

function prepare()
  return requests.get_same()
end
