/* The program of a pod's sandbox: holds its namespaces, reaps what ends in them, ends when asked to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { (void)signal; _exit(0); }
static void reap(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0); }

int main(void) {
  struct sigaction ending = {.sa_handler = end}, reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGTERM, &ending, 0);
  sigaction(SIGINT, &ending, 0);
  sigaction(SIGCHLD, &reaping, 0);
  for (;;) pause();
}
