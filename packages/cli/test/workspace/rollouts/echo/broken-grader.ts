import { Grader } from '@osmosis/core'

export { EchoWorkflow } from './main.js'

export class BrokenGrader extends Grader {
  async grade(): Promise<void> {
    throw new Error('the judge is out')
  }
}
