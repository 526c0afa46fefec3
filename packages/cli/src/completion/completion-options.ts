import { Argument, type Command } from 'commander'
import { printOut } from '../surroundings.ts'

const shells = ['bash', 'zsh', 'fish'] as const

/** Adds `completion`. */
export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes the command in a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .action(async (shell: (typeof shells)[number]) => {
      const { commandPlaces } = await import('./command-places.ts')
      const { completionScripts } = await import('./completion-scripts.ts')
      printOut(completionScripts[shell](commandPlaces(program)))
    })
}
