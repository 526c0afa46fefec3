export { Adder } from '../agent-loops/adder.js'
