export { agentLoop } from '../agent-loops/adder.js'
export { EchoWorkflow } from '../echo/main.js'
